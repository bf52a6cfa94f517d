"""Rewrites a StableHLO program so that every floating-point number in it is float64: rounding falls to 1e-16.

What a program computes stays: integers, explicit rounding (`round_nearest_even`, int8), random bits. Random bits become
floats of their own size first, and are widened then.
"""

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from maxview_probe.evaluate.recorded_step import find_main, parse_program, read_device_count

# custom calls that compute nothing, or that take any type
PASSED = frozenset({
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint",
    "MoveToHost", "MoveToDevice", "PinToDevice", "AllocateBuffer", "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape", "mhlo.erf", "mhlo.topk", "TopK", "mhlo.asin",
    "mhlo.acos", "mhlo.sinh", "mhlo.cosh", "mhlo.tan", "mhlo.atanh", "mhlo.asinh", "mhlo.acosh",
})  # fmt: skip
_CALLBACKS = ("callback", "python_cpu", "io_callback")
_PLACEMENTS = (
    "sdy.sharding",
    "mhlo.sharding",
    "mhlo.layout_mode",
    "mhlo.memory_kind",
    "tf.aliasing_output",
    "jax.buffer_donor",
)


class NoFunction(ValueError):
    """The program has a part that no float64 arithmetic of XLA can evaluate."""


def widen_program(text: str, *, with_places: bool = False) -> str:
    """Return the program's text in float64. Raises NoFunction, ValueError. Needs a context of MLIR.

    with_places: keep the source locations.
    """
    module = parse_program(text)
    drop_callbacks(module)
    check_calls(module)
    for operation in list(walk(module.operation)):
        _widen_operation(operation)
    strip_placement(module)
    return str(module.operation.get_asm(enable_debug_info=with_places))


def as_run(text: str) -> str:
    """Return the program's text without donation and placement of arguments, which one process cannot keep."""
    module = parse_program(text)
    drop_callbacks(module)
    check_calls(module, floats=False)
    strip_placement(module)
    return str(module)


def drop_callbacks(module: Any) -> None:
    """Remove the calls of Python that return nothing, such as `jax.debug.print`: no result depends on them."""
    for operation in list(walk(module.operation)):
        if not len(operation.results) and callback_of(operation):
            operation.erase()


def callback_of(operation: Any) -> str:
    """Return the target of a call of Python; "" for any other operation."""
    if operation.name != "stablehlo.custom_call":
        return ""
    target = ir.StringAttr(operation.attributes["call_target_name"]).value
    return target if any(word in target for word in _CALLBACKS) else ""


def check_calls(module: Any, *, floats: bool = True) -> None:
    """Raise NoFunction if a kernel or callback of the program cannot be run here (`floats`: in float64)."""
    for operation in walk(module.operation):
        if operation.name == "stablehlo.custom_call":
            if callback_of(operation):
                raise NoFunction(f"the step calls Python ({callback_of(operation)}): it cannot be evaluated alone")
            target = ir.StringAttr(operation.attributes["call_target_name"]).value
            kinds = [one.type for one in (*operation.operands, *operation.results)]
            if target not in PASSED and (not floats or any(widened(kind) is not None for kind in kinds)):
                where = _place(operation)
                raise NoFunction(f"the kernel {target}{where} has no float64 form")
        elif operation.name in ("stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv"):
            raise NoFunction("the step exchanges data with its host: it cannot be evaluated alone")
        elif operation.name == "stablehlo.rng" and floats:
            raise NoFunction("the step draws random numbers that XLA makes for one type only (stablehlo.rng)")


def strip_placement(module: Any) -> None:
    """Remove donation and placement of the arguments and results of `main`: all are whole on every device."""
    main = find_main(module)
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    for name, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        held = ir.ArrayAttr(main.attributes[name]) if name in main.attributes else [ir.DictAttr.get({})] * len(types)
        whole = (_whole(module, len(ir.RankedTensorType(one).shape)) for one in types)
        main.attributes[name] = ir.ArrayAttr.get(
            [_placed(ir.DictAttr(one), placement) for one, placement in zip(held, whole, strict=True)]
        )


def _placed(attributes: Any, placement: dict[str, Any]) -> Any:
    kept = {one.name: one.attr for one in attributes if one.name not in _PLACEMENTS}
    return ir.DictAttr.get(kept | placement)


def _whole(module: Any, rank: int) -> dict[str, Any]:
    """Return the attribute of an array that is whole on every device; without one, the compiler may split it."""
    if read_device_count(module) == 1:
        return {}
    mesh = next((held.operation for held in module.body.operations if held.operation.name == "sdy.mesh"), None)
    if mesh is None:
        return {"mhlo.sharding": ir.StringAttr.get("{replicated}")}
    name = ir.StringAttr(mesh.attributes["sym_name"]).value
    return {"sdy.sharding": ir.Attribute.parse(f"#sdy.sharding<@{name}, [{', '.join(['{}'] * rank)}]>")}


def walk(operation: Any) -> Iterator[Any]:
    """Yield every operation inside of an operation, outer ones first."""
    for region in operation.regions:
        for block in region.blocks:
            for held in block.operations:
                yield held.operation
                yield from walk(held.operation)


def widened(kind: Any) -> Any:
    """Return a tensor type with float64 (complex128) elements; None if it has no narrower floats."""
    if not isinstance(kind, ir.RankedTensorType):
        return None
    element = widened_element(kind.element_type)
    return None if element is None else ir.RankedTensorType.get(kind.shape, element, kind.encoding)


def widened_element(element: Any) -> Any:
    """Return float64 or complex128 for a narrower type; else None."""
    if isinstance(element, ir.ComplexType):
        inner = widened_element(ir.ComplexType(element).element_type)
        return None if inner is None else ir.ComplexType.get(inner)
    if isinstance(element, ir.F64Type):
        return None
    return ir.F64Type.get() if isinstance(element, ir.FloatType) else None


def _widen_operation(operation: Any) -> None:
    for region in operation.regions:
        for block in region.blocks:
            for argument in block.arguments:
                _widen_value(argument)
    name = operation.name
    if name in ("stablehlo.constant", "stablehlo.bitcast_convert"):
        if name == "stablehlo.bitcast_convert":
            _narrow_before(operation)
        _widen_after(operation)
        return
    if name == "stablehlo.reduce_precision":
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()
        return
    if name == "func.func":
        _widen_function(operation)
    elif "algorithm" in operation.attributes:  # of a product: "multiply bf16, add f32"
        del operation.attributes["algorithm"]
    for result in operation.results:
        _widen_value(result)


def _widen_value(value: Any) -> None:
    wide = widened(value.type)
    if wide is not None:
        value.set_type(wide)


def _widen_function(operation: Any) -> None:
    kind = ir.FunctionType(ir.TypeAttr(operation.attributes["function_type"]).value)
    inputs = [widened(one) or one for one in kind.inputs]
    results = [widened(one) or one for one in kind.results]
    operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def _widen_after(operation: Any) -> None:
    """Leave an operation's result in its own type, and convert it for all who read it."""
    (result,) = operation.results
    if (wide := widened(result.type)) is not None:
        with operation.location, ir.InsertionPoint(operation):
            made = ir.Operation.create("stablehlo.convert", results=[wide], operands=[result])
        made.move_after(operation)
        result.replace_all_uses_except(made.results[0], made)


def _narrow_before(operation: Any) -> None:
    """Convert an operand that is widened back to its own type for an operation that reads its bits."""
    (operand,) = operation.operands
    if (narrow := _narrow_type(operation, operand)) is not None:
        with operation.location, ir.InsertionPoint(operation):
            made = ir.Operation.create("stablehlo.convert", results=[narrow], operands=[operand])
        operation.operands[0] = made.results[0]


def _narrow_type(operation: Any, operand: Any) -> Any:
    """Return the type that a widened operand had: as many bits as the result's element."""
    kind, made = operand.type, operation.results[0].type
    if not isinstance(kind.element_type, ir.F64Type):
        return None
    bits = ir.IntegerType(made.element_type).width
    if len(made.shape) == len(kind.shape) + 1:  # each float becomes several integers
        bits *= made.shape[-1]
    elif len(made.shape) < len(kind.shape):
        bits //= kind.shape[-1]
    types: dict[int, Any] = {64: ir.F64Type, 32: ir.F32Type, 16: ir.BF16Type}
    if bits not in types:
        raise NoFunction(f"the step reads the bits of floats of {bits} bits")
    if bits == 64:
        return None
    return ir.RankedTensorType.get(kind.shape, types[bits].get())


def _place(operation: Any) -> str:
    text = str(operation.location)
    names = [part for part in text.split('"') if ".py" in part]
    return f" at {names[0]}" if names else ""
