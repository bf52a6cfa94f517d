"""Builds the graph of a StableHLO program's values, each with a hash of its computation, from the program's transcript.

The transcript is the program as JSON. Functions are inlined, and arguments and results are identified by their meaning.
Therefore a hash depends neither on the names of functions and values nor on the order of arguments, loop carries and
independent operations.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from maxview_probe.observe.meaning import meaning_of
from tasks.programs.program_work import locate
from tasks.programs.source_lines import find_source_line, is_library
from tasks.programs.value_graph import FREE, RANDOM, Graph, Input, Node, Value, array_type, count_bytes, hash_parts

type Transcript = Mapping[str, Any]  # the JSON that `model/compile/stablehlo.py` prints
type Operation = Mapping[str, Any]
type Values = Mapping[int, Value]  # number of an SSA value in the transcript → value

PLACEMENTS = frozenset({"sdy.sharding_constraint", "sdy.reshard"})
BARRIER = "stablehlo.optimization_barrier"
COMMUTATIVE = frozenset(f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor"))
BRANCHES = frozenset({"stablehlo.case", "stablehlo.if"})
_RETURNS = frozenset({"stablehlo.return", "func.return", "sdy.return"})
_RANDOM = re.compile(r"_?threefry\w*")  # JAX's functions for random bits; each call is one operation
_MAX_ROUNDS = 8  # limit of rounds in _Builder.loop
_INTEGER = re.compile(r"dense<(-?\d+)> : tensor<u?i\d+>")
_AXES = re.compile(r'"(\w+)"=(\d+)')
_NUMBER = re.compile(r"\d+")


class Around(NamedTuple):
    """The calls and loops around an operation."""

    times: int = 1  # executions of the operation in one step
    call: int | None = None  # index in transcript["places"] of the trainer's innermost call; None outside of calls
    record: bool = False  # add the operations to the graph; False for rounds that only compute hashes


def make_graph(transcript: Transcript, root: str = "") -> Graph:
    """Return the graph of a program. root: the arm's folder; source lines are relative to it."""
    return _Builder(transcript, root).graph


class _Builder:
    def __init__(self, transcript: Transcript, root: str) -> None:
        self.functions: Mapping[str, Any] = transcript["functions"]
        self.sources = [find_source_line(map(tuple, one["frames"]), root) for one in transcript["places"]]
        self.in_library = [not one["frames"] or is_library(one["frames"][0][1]) for one in transcript["places"]]
        self.stacks: list[str] = [one["stack"] for one in transcript["places"]]
        self.sizes = {axis: int(size) for axis, size in _AXES.findall(" ".join(transcript["meshes"]))}
        self.integers: dict[str, int] = {}  # exact hash of an integer constant → its value
        self.bodies: dict[str, str] = {}  # function → hash of its body
        self.carries = 0  # number of bits of `Value.carries` in use by the surrounding loops
        self.graph = Graph()
        main = self.functions["main"]
        env = self._arguments(main["arguments"])
        self._results(main, self.block(main["operations"], env, Around(record=True)))

    def _arguments(self, arguments: Sequence[Mapping[str, Any]]) -> dict[int, Value]:
        env = {}
        for number, one in enumerate(arguments):
            name = _unique(_name_argument(one["name"], number), self.graph.inputs)
            attributes = one["attributes"]
            donated = "tf.aliasing_output" in attributes or "jax.buffer_donor" in attributes
            sharding = self.describe_sharding(attributes.get("sdy.sharding", ""))
            self.graph.inputs[name] = Input(one["type"], sharding, donated)
            env[one["value"]] = Value.leaf("argument", name, one["type"])
        return env

    def _results(self, main: Mapping[str, Any], returned: Sequence[Value]) -> None:
        """Add the results to the graph. A result that overwrites a donated argument gets the argument's name."""
        names = list(self.graph.inputs)
        replaced = {
            int(found[0]): name
            for name, one in zip(names, main["arguments"], strict=True)
            if (found := _NUMBER.findall(one["attributes"].get("tf.aliasing_output", "")))
        }
        for number, value in enumerate(returned):
            attributes = main["results"][number] if number < len(main["results"]) else {}
            info = attributes.get("jax.result_info", "").strip('"')
            name = replaced.get(number) or (info.partition("[")[2].rstrip("]") and info) or f"result {number}"
            sharding = self.describe_sharding(attributes.get("sdy.sharding", ""))
            placed = hash_parts(value.exact, sharding) if sharding.strip("(-, )") else value.exact
            self.graph.outputs[_unique(name, self.graph.outputs)] = Value(value.value, placed)

    def describe_sharding(self, sharding: str) -> str:
        """Return the mesh axes that shard each dimension, e.g. `(fsdp, -)`, without mesh axes of size one.

        Empty if there is no sharding.
        """
        found = re.search(r", \[(.*?)\]", sharding)
        if not found:
            return ""
        groups = [re.findall(r'"(\w+)"', one) for one in re.findall(r"\{[^}]*\}", found[1])]
        parts = ["+".join(axis for axis in axes if self.sizes.get(axis, 2) > 1) or "-" for axes in groups]
        return f"({', '.join(parts)})"

    def block(self, operations: Iterable[Operation], given: Values, around: Around) -> list[Value]:
        """Return the values that a block returns. given: the block's arguments and the values defined outside of it."""
        env = dict(given)
        for one in operations:
            read = [env[number] for number in one["operands"]]
            name = one["name"]
            if name in _RETURNS:
                return read
            if name == "func.call":
                made = self.call(one, read, around)
            elif name == "stablehlo.while":
                made = self.loop(one, read, env, around)
            elif name in BRANCHES or name == "sdy.manual_computation":
                made = self.regions(one, read, env, around)
            elif name in PLACEMENTS:
                made = self.placement(one, read, around)
            elif name == BARRIER:
                made = [value._replace(exact=hash_parts(BARRIER, value.exact)) for value in read]
            else:
                made = self.operation(one, read, env, around)
            env.update(zip(one["results"], made, strict=True))
        return []

    def call(self, one: Operation, read: Sequence[Value], around: Around) -> list[Value]:
        callee: str = one["callee"]
        if _RANDOM.fullmatch(callee):
            return self.make_operation(one, read, f"random bits {self.body(callee)}", around)
        function = self.functions[callee]
        env = dict(zip((value["value"] for value in function["arguments"]), read, strict=True))
        return self.block(function["operations"], env, around._replace(call=self.find_place(one["place"], around)))

    def body(self, callee: str) -> str:
        """Return the hash of a function's computation, independent of its callers."""
        if callee not in self.bodies:
            self.bodies[callee] = ""  # ends the recursion if the function calls itself
            function = self.functions[callee]
            given = {
                one["value"]: Value.leaf("given", number, one["type"])
                for number, one in enumerate(function["arguments"])
            }
            returned = self.block(function["operations"], given, Around())
            self.bodies[callee] = hash_parts(*(value.exact for value in returned))
        return self.bodies[callee]

    def placement(self, one: Operation, read: Sequence[Value], around: Around) -> list[Value]:
        sharding = self.describe_sharding(one["attributes"].get("sharding", ""))
        if not sharding.strip("(-, )"):
            return list(read)
        if around.record:
            key = sharding, self.sources[self.find_place(one["place"], around)]
            self.graph.placements[key] = self.graph.placements.get(key, 0) + around.times
        return [value._replace(exact=hash_parts("placed", sharding, value.exact)) for value in read]

    def find_place(self, place: int, around: Around) -> int:
        """Return the place to report for an operation: `place`, or the call around it if `place` is in a library."""
        return place if around.call is None or not self.in_library[place] else around.call

    def operation(self, one: Operation, read: Sequence[Value], env: Values, around: Around) -> list[Value]:
        """Return the results of an operation. The results' hashes include its regions, e.g. a reduction's function."""
        inner = []
        for region in one.get("regions", ()):
            given = {number: Value.leaf("element", place) for place, number in enumerate(region["arguments"])}
            returned = self.block(region["operations"], {**env, **given}, Around(call=around.call))
            inner.append(hash_parts(*(value.exact for value in returned)))
        return self.make_operation(one, read, "".join(inner), around)

    def make_operation(self, one: Operation, read: Sequence[Value], inner: str, around: Around) -> list[Value]:
        """Return the results of an operation; add it to the graph if `around.record`. inner: its regions' hashes."""
        name, detail = one["name"], self.detail(one)
        key = hash_parts(name, detail, inner, one["reads"], one["makes"])
        whole = Value.combine(key, of=read, ordered=name not in COMMUTATIVE)
        made = [Value.combine(n, of=[whole]) for n in range(len(one["results"]))]
        if name == "stablehlo.constant" and (found := _INTEGER.fullmatch(one["attributes"].get("value", ""))):
            self.integers[made[0].exact] = int(found[1])
        if around.record:
            place = self.find_place(one["place"], around)
            reads, results = (tuple(value.exact for value in values) for values in (read, made))
            moved = 0 if name in FREE else sum(map(count_bytes, (*one["reads"], *one["makes"])))
            self.graph.values.update(reads, results)
            self.graph.nodes.append(
                Node(
                    name=RANDOM if name == "func.call" else name,
                    key=key,
                    reads=reads,
                    made=results,
                    types=(tuple(one["reads"]), tuple(one["makes"])),
                    detail=detail,
                    source=self.sources[place],
                    phase=locate(self.stacks[one["place"]] or self.stacks[place])[0],
                    times=around.times,
                    flops=around.times * _count_flops(one) if name == "stablehlo.dot_general" else 0,
                    bytes=around.times * moved,
                )
            )
        return made

    def detail(self, one: Operation) -> str:
        """Return an operation's attributes as text, without `callee`. Hashes of functions replace their names."""
        text = ", ".join(f"{name} = {value}" for name, value in one["attributes"].items() if name != "callee")
        if "@" not in text:
            return text
        return re.sub(r"@([\w.$-]+)", lambda found: self.body(found[1]) if found[1] in self.functions else "@", text)

    def regions(self, one: Operation, read: Sequence[Value], env: Values, around: Around) -> list[Value]:
        """Return the results of a conditional (they depend on all branches) or of Shardy's manual computation."""
        returned = []
        for region in one["regions"]:
            inner = {**env, **dict(zip(region["arguments"], read, strict=False))}
            returned.append(self.block(region["operations"], inner, around))
        index = read[:1] if one["name"] in BRANCHES else []
        what = one["name"], self.detail(one)
        return [Value.combine(*what, of=[*index, *parts]) for parts in zip(*returned, strict=True)]

    def loop(self, one: Operation, read: Sequence[Value], env: Values, around: Around) -> list[Value]:
        """Return a loop's results. Carries are identified by initial value and update, not by position.

        The carries' hashes (colours) are refined until the number of distinct hashes stops growing, or for _MAX_ROUNDS
        rounds. Results also depend on the loop's condition. A carry that the body does not change is returned as given.
        """
        condition, body = one["regions"]
        last = body["operations"][-1]["operands"]
        kept = [number == argument for number, argument in zip(last, body["arguments"], strict=True)]
        base = self.carries
        self.carries += len(read)  # nested loops use the bits after these

        def run_body(colours: Sequence[Value], inside: Around) -> tuple[list[Value], Value]:
            marked = [
                colour._replace(carries=read[n].carries if kept[n] else 1 << base + n)
                for n, colour in enumerate(colours)
            ]
            given = {**env, **dict(zip(condition["arguments"], marked, strict=True))}
            (test,) = self.block(condition["operations"], given, Around(call=around.call))
            given = {**env, **dict(zip(body["arguments"], marked, strict=True))}
            return self.block(body["operations"], given, inside), test

        colours, classes, rounds = list(read), 0, 0
        while rounds == 0 or (len({colour.exact for colour in colours}) > classes and rounds < _MAX_ROUNDS):
            classes, rounds = len({colour.exact for colour in colours}), rounds + 1
            made, test = run_body(colours, Around(call=around.call))
            colours = [
                colour if kept[n] else Value.combine("carry", of=[read[n], made[n], test])
                for n, colour in enumerate(colours)
            ]  # fmt: skip
        if around.record:
            trips = self.trips(condition, {**env, **dict(zip(condition["arguments"], read, strict=True))})
            # The initial values are used, so that a difference in the body changes only the nodes after it.
            run_body(read, around._replace(times=around.times * trips))
        self.carries = base
        needs = [value.carries | test.carries | 1 << base + n for n, value in enumerate(made)]
        closed = _close_loop(read, colours, needs, base)
        return [value if keep else result for value, keep, result in zip(read, kept, closed, strict=True)]

    def trips(self, condition: Mapping[str, Any], inner: Values) -> int:
        """Return a loop's number of iterations: limit minus the counter's start; 1 unless both are constants."""
        constants: dict[int, int] = {}
        for one in condition["operations"]:
            if one["name"] == "stablehlo.constant":
                found = _INTEGER.fullmatch(one["attributes"].get("value", ""))
                if found:
                    constants[one["results"][0]] = int(found[1])
            elif one["name"] == "stablehlo.compare":
                start, limit = (
                    constants.get(number, self.integers.get(inner[number].exact) if number in inner else None)
                    for number in one["operands"]
                )
                return 1 if start is None or limit is None else max(limit - start, 0)
        return 1


def _close_loop(read: Sequence[Value], colours: Sequence[Value], needs: Sequence[int], base: int) -> list[Value]:
    """Return the results of a loop from the last hashes (colours) of its carries.

    needs: for each carry, a bit mask of the carries that it is computed from, itself included. Bit base + n is carry n;
    lower bits are carries of the surrounding loops.
    """
    reached, before = [mask | value.carries for mask, value in zip(needs, read, strict=True)], list[int]()
    while reached != before:
        before = reached
        reached = [
            reduce(or_, (others for other, others in enumerate(before) if mask >> base + other & 1), mask)
            for mask in before
        ]
    outer = (1 << base) - 1
    results = []
    for colour, mask in zip(colours, reached, strict=True):
        among = [other for n, other in enumerate(colours) if mask >> base + n & 1]
        value = Value.combine("while", of=[colour, Value.combine(of=among, ordered=False)])
        results.append(value._replace(carries=mask & outer))
    return results


def _name_argument(name: str, number: int) -> str:
    if not name:
        return f"argument {number}"
    role, path = meaning_of(name)
    return f"{role} {path}"


def _unique(name: str, among: Mapping[str, object]) -> str:
    found, number = name, 1
    while found in among:
        number += 1
        found = f"{name} #{number}"
    return found


def _count_flops(one: Operation) -> int:
    """Return the FLOPs of a matrix product; a multiplication and an addition count one each."""
    text = one["attributes"].get("dot_dimension_numbers", "")
    found = re.search(r"lhs_contracting_dimensions = \[([\d, ]*)\]", text)
    left, made = array_type(one["reads"][0])[0], array_type(one["makes"][0])[0]
    axes = [int(axis) for axis in found[1].split(",")] if found and found[1] else []
    return 2 * math.prod(made) * math.prod(left[axis] for axis in axes)
