"""Finds the conditions that only one of two programs has, and makes a program return which ways they went.

A condition is a comparison, a test for finite values, a minimum, a maximum, or an end of a clamp. Two real analytic
functions that agree at a generic point agree in the whole region in which all conditions have the same results: so
agreement at some states says nothing of the other side of a condition that never went there.

A condition that both programs have may lead to a side that only one of them has: such sides are watched, too.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from maxview_probe.evaluate.recorded_step import find_main, parse_program
from maxview_probe.evaluate.widen import walk

DEPTH = 4  # operations before a condition that belong to its fingerprint
SIDE_DEPTH = 12  # operations before a selection that belong to its sides
MAX_WATCHED = 200
BRANCHES = 1_000_000  # added to the numbers of selections
_EXTREMES = {"stablehlo.minimum": "LT", "stablehlo.maximum": "GT"}
_COMMUTATIVE = frozenset(f"stablehlo.{name}" for name in ("add", "multiply", "minimum", "maximum", "and", "or"))
_REDUCERS = frozenset({
    "stablehlo.sort", "stablehlo.reduce", "stablehlo.scatter", "stablehlo.select_and_scatter", "stablehlo.map",
    "stablehlo.reduce_window", "stablehlo.all_reduce", "stablehlo.reduce_scatter",
})  # fmt: skip
_PLACE = re.compile(r'"([^"]+\.py)":(\d+)')
_LIBRARIES = ("site-packages", "dist-packages", "/jax/_src/", "<frozen", "/maxview_probe/")
_SUFFIX = re.compile(r"_\d+$")
_FALSE, _I1 = "dense<false> : tensor<i1>", "tensor<i1>"


@dataclass(frozen=True)
class Condition:
    """One condition of a program."""

    number: int  # among all conditions of the program, in its order
    fingerprint: str  # equal for equal conditions of two programs
    file: str  # of the source line outside of libraries; "" if unknown
    line: int
    constants: tuple[float, ...] = ()  # scalars that it compares with
    end: str = ""  # "below" or "above", of a clamp
    # of a selection: the result, "true" or "false", with which it takes the side that the other program lacks
    side: str = ""
    operand: int = 0  # of the selection: its condition

    @property
    def wanted(self) -> frozenset[bool]:
        """The results that should be seen."""
        return frozenset((True, False) if not self.side else (self.side == "true",))

    @property
    def place(self) -> str:
        """The source line."""
        return f"{self.file}:{self.line}" if self.file else "an unknown line"


def list_conditions(text: str) -> list[Condition]:
    """Return all conditions of a program whose results depend on its arguments. Needs a context of MLIR."""
    return [found for _, found in _conditions_of(parse_program(text))]


def _conditions_of(module: Any) -> Iterator[tuple[Any, Condition]]:
    number, callers = 0, _find_callers(module)
    for operation in walk(module.operation):
        ends = _ends(operation)
        if not ends or _is_in_reducer(operation) or not any(_is_dynamic(one) for one in operation.operands):
            continue
        file, line = _find_place(operation, callers)
        print_ = _fingerprint(operation, DEPTH)
        constants = tuple(value for one in operation.operands if (value := _constant(one)) is not None)
        for end in ends:
            yield operation, Condition(number, f"{print_}{end}", file, line, constants, end)
            number += 1


@dataclass(frozen=True)
class Selection:
    """A selection between two sides: fingerprints of its condition and of what it takes if that is true, or false."""

    number: int
    condition: str
    true: str
    false: str
    file: str
    line: int
    constants: tuple[float, ...]
    operand: int = 0  # of the operation: the condition


def list_selections(text: str) -> list[Selection]:
    """Return all selections of a program between two sides. Needs a context of MLIR."""
    return [found for _, found in _selections_of(parse_program(text))]


def _selections_of(module: Any) -> Iterator[tuple[Any, Selection]]:
    number, callers, known = BRANCHES, _find_callers(module), _Digests(module)
    selecting = _find_selecting_functions(module)
    for operation in walk(module.operation):
        operands, at = list(operation.operands), 0
        if operation.name == "func.call":
            order = selecting.get(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value)
            if order is None:
                continue
            at = order[0]
            condition, true, false = (operands[n] for n in order)
            sides = [known.value(one, SIDE_DEPTH) for one in (true, false)]
        elif operation.name == "stablehlo.select":
            condition, true, false = operands
            sides = [known.value(one, SIDE_DEPTH) for one in (true, false)]
        elif operation.name in ("stablehlo.case", "stablehlo.if") and len(operation.regions) == 2:
            (condition,) = operands
            sides = [known.block(region.blocks[0], SIDE_DEPTH) for region in operation.regions]
            sides = sides[::-1] if operation.name == "stablehlo.case" else sides  # the first region is index 0
        else:
            continue
        if _is_in_reducer(operation):
            continue
        file, line = _find_place(operation, callers)
        constants = tuple(_constants_before(condition))
        yield (
            operation,
            Selection(number, _fingerprint_value(condition, DEPTH), sides[0], sides[1], file, line, constants, at),
        )
        number += 1


def _find_selecting_functions(module: Any) -> dict[str, list[int]]:
    """Return function → its arguments for the condition and both sides, of functions like `jnp.where` lowers to."""
    found = {}
    for held in module.body.operations:
        function = held.operation
        if function.name != "func.func" or not len(function.regions[0].blocks):
            continue
        selects = [
            one.operation
            for one in function.regions[0].blocks[0].operations
            if one.operation.name == "stablehlo.select"
        ]
        order = [_argument_before(one) for one in selects[0].operands] if len(selects) == 1 else []
        if order and None not in order and len(set(order)) == len(order):
            found[ir.StringAttr(function.attributes["sym_name"]).value] = [int(n) for n in order if n is not None]
    return found


def _argument_before(value: Any) -> int | None:
    """Return the number of the function's argument that a value is, perhaps in another shape or type; else None."""
    for _ in range(4):
        if is_argument(value):
            return int(ir.BlockArgument(value).arg_number)
        operation = getattr(value.owner, "operation", value.owner)
        if operation.name not in ("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape"):
            return None
        value = operation.operands[0]
    return None


class _Digests:
    """Hashes of the operations before a value, up to a depth. Names of functions do not count: their bodies do."""

    def __init__(self, module: Any):
        self.bodies = {
            ir.StringAttr(held.operation.attributes["sym_name"]).value: held.operation.regions[0]
            for held in module.body.operations
            if held.operation.name == "func.func"
        }
        self.known: dict[Any, str] = {}

    def value(self, value: Any, depth: int) -> str:
        """Return the hash of a value."""
        if is_argument(value) or depth <= 0:
            return str(value.type)
        if (value, depth) not in self.known:
            operation = getattr(value.owner, "operation", value.owner)
            number = next(n for n, one in enumerate(operation.results) if one == value)
            before = [self.value(one, depth - 1) for one in operation.operands]
            if operation.name in _COMMUTATIVE:
                before.sort()
            if operation.name == "func.call":
                callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
                head, regions = operation.name, [self.bodies[callee]] if callee in self.bodies else []
            else:
                head, regions = _fingerprint(operation, 0), list(operation.regions)
            inner = [self.block(one.blocks[0], depth - 1) for one in regions if depth > 1 and len(one.blocks)]
            self.known[value, depth] = _hash(head, str(number), *before, *inner)
        return self.known[value, depth]

    def block(self, block: Any, depth: int) -> str:
        """Return the hash of what a block returns."""
        return _hash(*(self.value(one, depth) for one in _last(block).operands))


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _constants_before(value: Any, depth: int = 4) -> Iterator[float]:
    """Yield the numbers with which the comparisons before a condition compare."""
    if is_argument(value) or not depth:
        return
    operation = getattr(value.owner, "operation", value.owner)
    for one in operation.operands:
        if operation.name == "stablehlo.compare":
            if (number := _constant(one)) is not None:
                yield number
        elif operation.name != "func.call":
            yield from _constants_before(one, depth - 1)


def find_other_sides(mine: Sequence[Selection], other: Sequence[Selection]) -> list[Condition]:
    """Return the selections of one program with one side that the other program's selection lacks."""
    theirs = {(one.condition, one.true, one.false) for one in other}
    like_false, like_true = ({(one.condition, getattr(one, side)) for one in other} for side in ("false", "true"))
    found = []
    for one in mine:
        if (one.condition, one.true, one.false) in theirs or not one.file:  # without a line nobody could look at it
            continue
        side = "true" if (one.condition, one.false) in like_false else ""
        side = side or ("false" if (one.condition, one.true) in like_true else "")
        if side:
            found.append(Condition(one.number, one.condition, one.file, one.line, one.constants, "", side, one.operand))
    return found[:MAX_WATCHED]


def _ends(operation: Any) -> Sequence[str]:
    name = operation.name
    if name == "stablehlo.clamp":
        return ("below", "above")
    if name == "stablehlo.compare":
        checks = (_is_index_check, _is_bounds_check, _is_loop_condition)
        return () if any(check(operation) for check in checks) else ("",)
    return ("",) if name in _EXTREMES or name == "stablehlo.is_finite" else ()


def _is_index_check(operation: Any) -> bool:
    """Return whether a comparison asks whether an integer is below 0, as JAX does for every index."""
    kind = operation.operands[0].type.element_type
    return isinstance(kind, ir.IntegerType) and "LT" in str(operation.attributes["comparison_direction"]) and (
        _constant(operation.operands[1]) == 0.0
    )  # fmt: skip


def _is_bounds_check(operation: Any) -> bool:
    """Return whether a comparison of integers goes into "all indices are inside", as JAX asks before a gather."""
    if not isinstance(operation.operands[0].type.element_type, ir.IntegerType):
        return False
    users = [use.owner for use in operation.results[0].uses]
    following = [use.owner for user in users if user.name == "stablehlo.and" for use in user.results[0].uses]
    return bool(following) and all(user.name == "stablehlo.reduce" for user in following)


def _is_in_reducer(operation: Any) -> bool:
    """Return whether an operation is part of a sort, a reduction or a scatter."""
    parent = operation.parent
    return parent is not None and parent.name in _REDUCERS


def _is_loop_condition(operation: Any) -> bool:
    block = operation.parent
    return block is not None and block.name == "stablehlo.while" and operation.block == block.regions[0].blocks[0]


def is_argument(value: Any) -> bool:
    """Return whether a value is an argument of a block. JAX 0.8 has no class for one."""
    return isinstance(value.owner, ir.Block)


def _is_dynamic(value: Any, depth: int = 12) -> bool:
    """Return whether a value depends on an argument of its function or loop."""
    if is_argument(value):
        return True
    owner = value.owner
    operation = getattr(owner, "operation", owner)
    if operation.regions and len(operation.regions) and operation.name in ("stablehlo.while", "stablehlo.case"):
        return True
    if operation.name == "func.call" or not depth:
        return bool(len(operation.operands))
    return any(_is_dynamic(one, depth - 1) for one in operation.operands)


def _fingerprint(operation: Any, depth: int) -> str:
    name = operation.name
    if name == "stablehlo.constant":
        return str(operation.attributes["value"])[:200]
    attributes = " ".join(
        f"{name}={_SUFFIX.sub('', str(value))}"
        for name, value in _attributes(operation).items()
        if "sharding" not in name
    )
    operands = ",".join(_fingerprint_value(one, depth - 1) for one in operation.operands) if depth else ""
    return f"{name}[{attributes}]({operands})"


def _attributes(operation: Any) -> dict[str, Any]:
    named = [operation.attributes[n] for n in range(len(operation.attributes))]
    return {one.name: one.attr for one in named}


def _fingerprint_value(value: Any, depth: int) -> str:
    if is_argument(value) or depth <= 0:
        return str(value.type)
    return _fingerprint(getattr(value.owner, "operation", value.owner), depth)


def _constant(value: Any) -> float | None:
    """Return the number that a value is everywhere; None if it is no such constant."""
    for _ in range(6):
        if is_argument(value):
            return None
        operation = getattr(value.owner, "operation", value.owner)
        if operation.name == "stablehlo.constant":
            found = re.fullmatch(r"dense<([^\[\]\",]+)> : .*", str(operation.attributes["value"]))
            try:
                return float(found[1]) if found else None
            except ValueError:
                return None
        if operation.name not in ("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape"):
            return None
        value = operation.operands[0]
    return None


def _find_callers(module: Any) -> dict[str, Any]:
    """Return function → the first call of it."""
    found: dict[str, Any] = {}
    for operation in walk(module.operation):
        if operation.name == "func.call":
            found.setdefault(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value, operation)
    return found


def _find_place(operation: Any, callers: Mapping[str, Any]) -> tuple[str, int]:
    """Return file and line of the innermost frame outside of libraries; JAX's own functions have their caller's."""
    while operation is not None:
        for file, line in _PLACE.findall(str(operation.location)):
            if not any(word in file for word in _LIBRARIES):
                return file, int(line)
        while operation is not None and operation.name != "func.func":
            operation = operation.parent
        if operation is not None:
            operation = callers.get(ir.StringAttr(operation.attributes["sym_name"]).value)
    return "", 0


def find_own_conditions(mine: Sequence[Condition], other: Sequence[Condition]) -> list[Condition]:
    """Return the conditions of one program that the other one lacks."""
    left = Counter(one.fingerprint for one in mine)
    left.subtract(one.fingerprint for one in other)
    found = []
    for one in reversed(mine):
        if left[one.fingerprint] > 0:
            left[one.fingerprint] -= 1
            found.append(one)
    return found[::-1][:MAX_WATCHED]


def expose_conditions(text: str, chosen: Sequence[Condition]) -> tuple[str, list[Condition]]:
    """Return a program with two more results per chosen condition: was it true anywhere, was it false anywhere.

    Also returns the conditions with such results, in their order: not those in a part that cannot return them, such as
    the body of a `shard_map`. A condition inside of a loop, a branch or a function counts in all of its runs. Needs a
    context of MLIR.
    """
    if not chosen:
        return text, []
    module = parse_program(text)
    numbers = {one.number for one in chosen}
    places: dict[Any, list[Condition]] = {}
    for operation, condition in _conditions_of(module):
        if condition.number in numbers:
            places.setdefault(_key(operation), []).append(condition)
    selected = {one.number: one for one in chosen if one.side}
    for operation, selection in _selections_of(module) if selected else ():
        if selection.number in selected:
            places.setdefault(_key(operation), []).append(selected[selection.number])
    exposure = _Exposure(module, places)
    main = find_main(module)
    flags = exposure.function("main", main)
    watched = [condition for condition in chosen if condition.number in flags]
    terminator = _last(main.regions[0].blocks[0])
    kept = list(terminator.operands)[: len(terminator.operands) - 2 * len(flags)]
    extra = list(terminator.operands)[len(kept) :]
    by_number = {number: extra[2 * n : 2 * n + 2] for n, number in enumerate(flags)}
    with ir.InsertionPoint(terminator), ir.Location.unknown():
        results = kept + [flag for condition in watched for flag in by_number[condition.number]]
        ir.Operation.create("func.return", operands=results)
    terminator.erase()
    _retype(main, len(kept), 2 * len(watched))
    for helper in exposure.helpers.values():
        module.body.append(ir.Operation.parse(helper))
    return str(module), watched


def _key(operation: Any) -> Any:
    return operation.results[0]


class _Exposure:
    """Rewrites functions, loops and branches so that they return their conditions' flags."""

    def __init__(self, module: Any, places: Mapping[Any, Sequence[Condition]]):
        self.places = places
        self.functions = {
            ir.StringAttr(held.operation.attributes["sym_name"]).value: held.operation
            for held in module.body.operations
            if held.operation.name == "func.func"
        }
        self.done: dict[str, list[int]] = {}  # function → numbers of its conditions, two results each
        self.helpers: dict[str, str] = {}  # type → function that reduces an array of booleans

    def function(self, name: str, function: Any) -> list[int]:
        """Rewrite a function, callees first; return the numbers of the conditions whose flags it returns last."""
        if name in self.done:
            return self.done[name]
        self.done[name] = []  # a recursion, which StableHLO lacks, would end here
        (block,) = function.regions[0].blocks
        flags = self.block(block)
        if flags:
            self._return_more(block, "func.return", [flag for pair in flags.values() for flag in pair])
            if name != "main":
                count = len(list(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results))
                _retype(function, count, 2 * len(flags))
        self.done[name] = list(flags)
        return self.done[name]

    def block(self, block: Any) -> dict[int, tuple[Any, Any]]:
        """Rewrite the operations of a block; return number → both flags, which its terminator can use."""
        flags: dict[int, tuple[Any, Any]] = {}

        def add(number: int, pair: tuple[Any, Any]) -> None:
            before = flags.get(number)
            if before is not None:
                with ir.InsertionPoint(_last(block)), ir.Location.unknown():
                    pair = (_or(before[0], pair[0]), _or(before[1], pair[1]))
            flags[number] = pair

        for operation in [held.operation for held in block.operations]:
            for condition in self.places.get(operation.results[0], ()) if len(operation.results) else ():
                with ir.InsertionPoint(_last(block)), ir.Location.unknown():
                    truth = _truth(operation, condition)
                    add(condition.number, (self._any(truth), self._any(_not(truth))))
            for number, pair in self.inner(operation):
                add(number, pair)
        return flags

    def inner(self, operation: Any) -> list[tuple[int, tuple[Any, Any]]]:
        """Rewrite an operation with a body, or a call; return the flags of the conditions in it."""
        if operation.name == "func.call":
            callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
            if callee not in self.functions:
                return []
            numbers = self.function(callee, self.functions[callee])
            return _pairs(numbers, _remake(operation, 2 * len(numbers), ()))
        if operation.name == "stablehlo.while":
            return self._loop(operation)
        if operation.name in ("stablehlo.case", "stablehlo.if"):
            return self._branches(operation)
        return []

    def _loop(self, operation: Any) -> list[tuple[int, tuple[Any, Any]]]:
        condition, body = (region.blocks[0] for region in operation.regions)
        flags = self.block(body)
        if not flags:
            return []
        where, kind = ir.Location.unknown(), ir.Type.parse(_I1)
        now = [flag for pair in flags.values() for flag in pair]
        carried = [body.add_argument(kind, where) for _ in now]
        for _ in now:
            condition.add_argument(kind, where)
        with ir.InsertionPoint(_last(body)), where:
            now = [_or(before, flag) for before, flag in zip(carried, now, strict=True)]
        self._return_more(body, "stablehlo.return", now)
        with ir.InsertionPoint(operation), where:
            start = [_false() for _ in now]
        return _pairs(list(flags), _remake(operation, len(now), start))

    def _branches(self, operation: Any) -> list[tuple[int, tuple[Any, Any]]]:
        blocks = [region.blocks[0] for region in operation.regions]
        found = [self.block(block) for block in blocks]
        numbers = list(dict.fromkeys(number for flags in found for number in flags))
        if not numbers:
            return []
        for block, flags in zip(blocks, found, strict=True):
            with ir.InsertionPoint(_last(block)), ir.Location.unknown():
                more = [flag for number in numbers for flag in flags.get(number) or (_false(), _false())]
            self._return_more(block, "stablehlo.return", more)
        return _pairs(numbers, _remake(operation, 2 * len(numbers), ()))

    @staticmethod
    def _return_more(block: Any, name: str, more: Sequence[Any]) -> None:
        terminator = _last(block)
        with ir.InsertionPoint(terminator), ir.Location.unknown():
            ir.Operation.create(name, operands=[*terminator.operands, *more])
        terminator.erase()

    def _any(self, truth: Any) -> Any:
        """Return whether an array of booleans has a true one."""
        kind = str(truth.type)
        if kind == _I1:
            return truth
        name = f"maxview_any_{len(self.helpers)}"
        if kind in self.helpers:
            name = f"maxview_any_{list(self.helpers).index(kind)}"
        rank = len(ir.RankedTensorType(truth.type).shape)
        axes = ", ".join(map(str, range(rank)))
        self.helpers.setdefault(
            kind,
            f"func.func private @{name}(%all: {kind}) -> {_I1} {{\n"
            f"  %none = stablehlo.constant {_FALSE}\n"
            f"  %found = stablehlo.reduce(%all init: %none) applies stablehlo.or across dimensions = [{axes}] : "
            f"({kind}, {_I1}) -> {_I1}\n"
            f"  return %found : {_I1}\n}}",
        )
        call = ir.Operation.create(
            "func.call", results=[ir.Type.parse(_I1)], operands=[truth],
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)},
        )  # fmt: skip
        return call.results[0]


def _truth(operation: Any, condition: Condition) -> Any:
    """Return the array of booleans of a condition, made at the current insertion point."""
    operands = list(operation.operands)
    if condition.side:
        truth = operands[condition.operand]
        return truth if str(truth.type.element_type) == "i1" else _is_not_zero(truth)
    if operation.name in ("stablehlo.compare", "stablehlo.is_finite"):
        return operation.results[0]
    if operation.name == "stablehlo.clamp":
        low, value, high = operands
        return _compare(value, low, "LT") if condition.end == "below" else _compare(value, high, "GT")
    return _compare(operands[0], operands[1], _EXTREMES[operation.name])


def _is_not_zero(index: Any) -> Any:
    zero = ir.Attribute.parse(f"dense<0> : {index.type}")
    constant = ir.Operation.create("stablehlo.constant", results=[index.type], attributes={"value": zero}).results[0]
    return _compare(index, constant, "NE")


def _compare(left: Any, right: Any, direction: str) -> Any:
    kind = ir.RankedTensorType(left.type)
    if right.type != left.type:  # a clamp's scalar end
        right = ir.Operation.create(
            "stablehlo.broadcast_in_dim", results=[left.type], operands=[right],
            attributes={"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])},
        ).results[0]  # fmt: skip
    made = ir.RankedTensorType.get(kind.shape, ir.IntegerType.get_signless(1))
    attribute = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
    return ir.Operation.create(
        "stablehlo.compare", results=[made], operands=[left, right], attributes={"comparison_direction": attribute}
    ).results[0]


def _not(value: Any) -> Any:
    return ir.Operation.create("stablehlo.not", results=[value.type], operands=[value]).results[0]


def _or(left: Any, right: Any) -> Any:
    return ir.Operation.create("stablehlo.or", results=[left.type], operands=[left, right]).results[0]


def _false() -> Any:
    value = ir.Attribute.parse(_FALSE)
    kind = ir.Type.parse(_I1)
    return ir.Operation.create("stablehlo.constant", results=[kind], attributes={"value": value}).results[0]


def _last(block: Any) -> Any:
    held = block.operations[len(block.operations) - 1]
    return held.operation


def _remake(operation: Any, count: int, more: Sequence[Any]) -> list[Any]:
    """Replace an operation by one with `count` more results of booleans and more operands; return the new results."""
    if not count:
        return []
    kinds = [one.type for one in operation.results] + [ir.Type.parse(_I1)] * count
    attributes = _attributes(operation)
    with ir.InsertionPoint(operation), operation.location:
        made = ir.Operation.create(
            operation.name, results=kinds, operands=[*operation.operands, *more], attributes=attributes,
            regions=len(operation.regions),
        )  # fmt: skip
    for region, copied in zip(operation.regions, made.regions, strict=True):
        region.blocks[0].append_to(copied)
    for before, new in zip(operation.results, made.results, strict=False):
        before.replace_all_uses_with(new)
    found = list(made.results)[len(operation.results) :]
    operation.erase()
    return found


def _pairs(numbers: Sequence[int], values: Sequence[Any]) -> list[tuple[int, tuple[Any, Any]]]:
    return [(number, (values[2 * n], values[2 * n + 1])) for n, number in enumerate(numbers)]


def _retype(function: Any, kept: int, more: int) -> None:
    """Give a function the type of its first `kept` results and `more` booleans behind them."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    results = [*list(kind.results)[:kept], *([ir.Type.parse(_I1)] * more)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(list(kind.inputs), results))
    if "res_attrs" in function.attributes:
        held = list(ir.ArrayAttr(function.attributes["res_attrs"]))[:kept]
        function.attributes["res_attrs"] = ir.ArrayAttr.get(held + [ir.DictAttr.get({})] * more)


def read_ways(chosen: Sequence[Condition], flags: Sequence[Any], seen: dict[int, set[bool]]) -> None:
    """Add the ways that the conditions went in one run. flags: the program's results behind its own."""
    for n, condition in enumerate(chosen):
        ways = seen.setdefault(condition.number, set())
        ways.update(truth for truth, flag in zip((True, False), flags[2 * n : 2 * n + 2], strict=True) if bool(flag))
