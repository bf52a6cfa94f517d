"""Plants one known change into a step's StableHLO: a fault, or a refactoring of the same function."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from maxview_probe.evaluate.recorded_step import parse_program
from maxview_probe.evaluate.widen import walk

SCALE = 1.01
DIRECTION = "comparison_direction"
BACKWARD = ("transpose(", "vjp")  # in the name of an operation of the backward pass

FAULTS = ("gradient scaled", "reduction left out", "mask shifted")
REFACTORINGS = ("products commuted", "quotients as products", "roots written out")


def plant(text: str, kind: str) -> tuple[str, str]:
    """Return the changed program and where it was changed. Raises ValueError if it has no place for the change.

    Needs a context of MLIR.
    """
    module = parse_program(text)
    places = PLANTS[kind](module)
    if not places:
        raise ValueError(f"the program has no place for: {kind}")
    return str(module), f"{kind} {places}"


def scale_gradient(module: Any) -> str:
    """Multiply one product of the backward pass by 1.01, in its first iteration if it is in a loop."""
    found = [one for one in _find(module, "stablehlo.dot_general") if _is_backward(one)]
    found = found or list(_find(module, "stablehlo.dot_general"))
    if not found:
        return ""
    operation = found[len(found) // 2]
    _after(operation, lambda result: _binary("multiply", result, _constant(result.type, SCALE)))
    return f"× {SCALE} at {line_of(operation)}"


def leave_out_reduction(module: Any) -> str:
    """Leave half of the sum out of one product of the backward pass, as a sum over two devices that is missing."""
    found = [one for one in _find(module, "stablehlo.dot_general") if _is_backward(one) and _half(one) is not None]
    found = found or [one for one in _find(module, "stablehlo.dot_general") if _half(one) is not None]
    if not found:
        return ""
    operation = found[len(found) // 3]
    operand = operation.operands[0]
    axis = _half(operation)
    shape = ir.RankedTensorType(operand.type).shape
    kept = np.zeros([size if n == axis else 1 for n, size in enumerate(shape)])
    kept[tuple(slice(0, shape[n] // 2) if n == axis else slice(None) for n in range(len(shape)))] = 1.0
    mask = np.broadcast_to(kept, shape)
    with operation.location, ir.InsertionPoint(operation):
        operation.operands[0] = _binary("multiply", operand, _constant(operand.type, mask))
    return f"(half of a sum) at {line_of(operation)}"


def shift_mask(module: Any) -> str:
    """Shift one mask by a token: a comparison of two integer tensors is strict, or no longer strict."""
    other = {"GE": "GT", "LE": "LT", "GT": "GE", "LT": "LE"}
    # a comparison with a constant, such as < 0, usually belongs to an index or to a check, not to a mask
    found = sorted(
        _find(module, "stablehlo.compare"),
        key=lambda one: (any(map(_is_constant, one.operands)), "T>" in str(one.attributes[DIRECTION])),
    )
    for operation in found:
        direction = str(operation.attributes[DIRECTION])
        word = next((one for one in other if f" {one}>" in direction), None)
        kind = ir.RankedTensorType(operation.operands[0].type)
        if word and isinstance(kind.element_type, ir.IntegerType) and len(kind.shape) > 1:
            changed = direction.replace(f" {word}>", f" {other[word]}>")
            operation.attributes[DIRECTION] = ir.Attribute.parse(changed)
            return f"({word} → {other[word]}) at {line_of(operation)}"
    return ""


def commute_products(module: Any) -> str:
    """Exchange the operands of every sum and product of floats."""
    count = 0
    for name in ("stablehlo.add", "stablehlo.multiply"):
        for operation in _find(module, name):
            if _is_float(operation.results[0]):
                left, right = operation.operands
                operation.operands[0], operation.operands[1] = right, left
                count += 1
    return f"({count} operations)" if count else ""


def multiply_by_reciprocals(module: Any) -> str:
    """Write every quotient of floats as a product with a reciprocal."""
    count = 0
    for operation in list(_find(module, "stablehlo.divide")):
        if _is_float(operation.results[0]):
            left, right = operation.operands
            with operation.location, ir.InsertionPoint(operation):
                reciprocal = _binary("divide", _constant(right.type, 1.0), right)
                made = _binary("multiply", left, reciprocal)
            operation.results[0].replace_all_uses_with(made)
            operation.erase()
            count += 1
    return f"({count} operations)" if count else ""


def write_out_roots(module: Any) -> str:
    """Write every reciprocal root as a quotient, and every logistic function with exponentials."""
    count = 0
    for operation in list(_find(module, "stablehlo.rsqrt")):
        (operand,) = operation.operands
        with operation.location, ir.InsertionPoint(operation):
            root = _unary("sqrt", operand)
            made = _binary("divide", _constant(operand.type, 1.0), root)
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
        count += 1
    for operation in list(_find(module, "stablehlo.logistic")):
        (operand,) = operation.operands
        with operation.location, ir.InsertionPoint(operation):
            one = _constant(operand.type, 1.0)
            made = _binary("divide", one, _binary("add", one, _unary("exponential", _unary("negate", operand))))
        operation.results[0].replace_all_uses_with(made)
        operation.erase()
        count += 1
    return f"({count} operations)" if count else ""


PLANTS: dict[str, Callable[[Any], str]] = dict(
    zip(
        (*FAULTS, *REFACTORINGS),
        (
            scale_gradient,
            leave_out_reduction,
            shift_mask,
            commute_products,
            multiply_by_reciprocals,
            write_out_roots,
        ),
        strict=True,
    )
)


def line_of(operation: Any) -> str:
    """Return the file and line of an operation of a program with locations; "an operation" without."""
    text = str(operation.location)
    parts = [part for part in text.split('"') if part.endswith(".py")]
    if not parts:
        return "an operation"
    line = text.partition(f'{parts[0]}"')[2].lstrip(":").partition(":")[0]
    name = parts[0].rsplit("/", 2)
    return f"{'/'.join(name[-2:])}:{line}"


def _find(module: Any, name: str) -> Iterator[Any]:
    return (one for one in list(walk(module.operation)) if one.name == name)


def _is_backward(operation: Any) -> bool:
    text = str(operation.location)
    return any(word in text for word in BACKWARD)


def _is_float(value: Any) -> bool:
    kind = value.type
    return isinstance(kind, ir.RankedTensorType) and isinstance(kind.element_type, ir.FloatType)


def _is_constant(value: Any) -> bool:
    """Whether a value is a constant, or a constant in another shape."""
    owner = value.owner
    if not isinstance(owner, ir.Operation | ir.OpView):
        return False  # an argument
    name = owner.operation.name
    shaped = name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")
    return name == "stablehlo.constant" or (shaped and _is_constant(owner.operation.operands[0]))


def _half(operation: Any) -> int | None:
    """Return an axis of even size that a product of floats sums over."""
    operand = operation.operands[0]
    if not _is_float(operand):
        return None
    text = str(operation.attributes["dot_dimension_numbers"])
    inside = text.partition("lhs_contracting_dimensions = [")[2].partition("]")[0]
    axes = [int(word) for word in inside.split(",") if word.strip()]
    shape = ir.RankedTensorType(operand.type).shape
    return next((axis for axis in axes if shape[axis] > 1 and shape[axis] % 2 == 0), None)


def _after(operation: Any, make: Callable[[Any], Any]) -> None:
    """Replace an operation's result by a value that is made from it."""
    (result,) = operation.results
    users = [(use.owner, use.operand_number) for use in result.uses]
    following = next(iter(_siblings_after(operation)))
    with operation.location, ir.InsertionPoint(following):
        made = make(result)
    for owner, number in users:
        owner.operands[number] = made


def _siblings_after(operation: Any) -> Iterator[Any]:
    found = False
    for held in operation.operation.block.operations:
        if found:
            yield held
        found = found or held.operation == operation.operation


def _constant(kind: Any, value: Any) -> Any:
    tensor = ir.RankedTensorType(kind)
    element = tensor.element_type
    if np.ndim(value) == 0:
        attribute: Any = ir.DenseElementsAttr.get_splat(tensor, ir.FloatAttr.get(element, float(value)))
        return ir.Operation.create("stablehlo.constant", results=[tensor], attributes={"value": attribute}).results[0]
    wide = ir.RankedTensorType.get(tensor.shape, ir.F64Type.get())
    attribute = ir.DenseElementsAttr.get(np.ascontiguousarray(value, np.float64), type=wide)
    made = ir.Operation.create("stablehlo.constant", results=[wide], attributes={"value": attribute}).results[0]
    if isinstance(element, ir.F64Type):
        return made
    return ir.Operation.create("stablehlo.convert", results=[tensor], operands=[made]).results[0]


def _binary(name: str, left: Any, right: Any) -> Any:
    return ir.Operation.create(f"stablehlo.{name}", results=[left.type], operands=[left, right]).results[0]


def _unary(name: str, operand: Any) -> Any:
    return ir.Operation.create(f"stablehlo.{name}", results=[operand.type], operands=[operand]).results[0]
