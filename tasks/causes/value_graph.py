"""Turns a transcribed StableHLO program into a graph of values, each with a hash of all that it is computed from.

Functions are inlined, and arguments and results are known by their meaning, so neither names nor the order of
arguments, carries and independent operations changes a hash. Each value has two: `value` looks through what only says
where an array lies or what is kept (sharding constraints, barriers), `exact` does not.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tasks.causes.source_lines import SourceLine, find_source_line, is_library
from tasks.observe.inject.maxview_observe.meaning import meaning_of
from tasks.preflight.analyse import locate

type Transcript = Mapping[str, Any]  # as `model/compile/stablehlo.py` writes it
type Operation = Mapping[str, Any]

PLACEMENTS = frozenset({"sdy.sharding_constraint", "sdy.reshard"})
BARRIER = "stablehlo.optimization_barrier"
COMMUTATIVE = frozenset(f"stablehlo.{name}" for name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor"))
# what moves no data of its own once it is compiled
FREE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "constant",
        "reshape",
        "broadcast_in_dim",
        "iota",
        "get_tuple_element",
        "tuple",
        "optimization_barrier",
    )
)
RANDOM = "random bits"
BRANCHES = frozenset({"stablehlo.case", "stablehlo.if"})
_RETURNS = frozenset({"stablehlo.return", "func.return", "sdy.return"})
_RANDOM = re.compile(r"_?threefry\w*")  # one operation: how it is computed belongs to JAX
_MOST_ROUNDS = 8
_INTEGER = re.compile(r"dense<(-?\d+)> : tensor<u?i\d+>")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-zA-Z]\w*)")
_AXES = re.compile(r'"(\w+)"=(\d+)')
_BITS = re.compile(r"\d+")


class Value(NamedTuple):
    """A value by what it is computed from; `carries`: the loop's carries among it, a bit for each."""

    value: str
    exact: str
    carries: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """An operation at one place of the program. `times`: how often it runs in a step; bytes and FLOPs are of all."""

    name: str
    key: str  # what it does, whatever it reads
    reads: tuple[str, ...]  # the exact hashes of its operands
    made: tuple[str, ...]  # and of its results; in a loop from what its carries begin with
    types: tuple[tuple[str, ...], tuple[str, ...]]  # of operands and of results
    detail: str  # its attributes, as the program writes them
    source: SourceLine
    phase: str
    times: int
    flops: int
    bytes: int


class Input(NamedTuple):
    """An argument of the step: its type, the mesh axes that split it, and whether the step may overwrite it."""

    type: str
    sharding: str
    donated: bool


@dataclass
class Graph:
    """A program. `nodes` in the order of the text, without those that only pass values on."""

    inputs: dict[str, Input] = field(default_factory=dict)  # by meaning
    outputs: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    values: set[str] = field(default_factory=set)  # the exact hashes of all that its nodes read and make
    placements: dict[tuple[str, SourceLine], int] = field(default_factory=dict)  # (sharding, line) -> times
    unknown_loops: int = 0  # whose trips could not be read; they count once

    @property
    def flops(self) -> int:
        """Of the matrix products of a step."""
        return sum(node.flops for node in self.nodes)

    @property
    def bytes(self) -> int:
        """That all operations read and write in a step if none is fused with another."""
        return sum(node.bytes for node in self.nodes)

    @property
    def sha256(self) -> str:
        """The program's canonical hash: equal for two texts of one computation."""
        outputs = sorted(value.exact for value in self.outputs.values())
        inputs = sorted((name, *map(str, one)) for name, one in self.inputs.items())
        return hashlib.sha256(repr((inputs, outputs)).encode()).hexdigest()


def make_graph(transcript: Transcript, root: str = "") -> Graph:
    """The graph of a program. root: the arm's folder, which its source lines are told without."""
    return _Builder(transcript, root).graph


def digest(*parts: object) -> str:
    """The hash of a value or a key."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=12).hexdigest()


class _Builder:
    def __init__(self, transcript: Transcript, root: str) -> None:
        self.functions: Mapping[str, Any] = transcript["functions"]
        self.sources = [find_source_line(map(tuple, one["frames"]), root) for one in transcript["places"]]
        self.in_library = [not one["frames"] or is_library(one["frames"][0][1]) for one in transcript["places"]]
        self.stacks: list[str] = [one["stack"] for one in transcript["places"]]
        self.sizes = {axis: int(size) for axis, size in _AXES.findall(" ".join(transcript["meshes"]))}
        self.integers: dict[str, int] = {}
        self.random: dict[str, str] = {}
        self.carries = 0  # bits that are taken by the loops around
        self.graph = Graph()
        main = self.functions["main"]
        env = self._arguments(main["arguments"])
        returned = self.block(main["operations"], env, 1, None, record=True)
        self._results(main, returned)

    def _arguments(self, arguments: Sequence[Mapping[str, Any]]) -> dict[int, Value]:
        env = {}
        for number, one in enumerate(arguments):
            name = _unique(_name_argument(one["name"], number), self.graph.inputs)
            attributes = one["attributes"]
            donated = "tf.aliasing_output" in attributes or "jax.buffer_donor" in attributes
            self.graph.inputs[name] = Input(one["type"], self.lies(attributes.get("sdy.sharding", "")), donated)
            found = digest("argument", name, one["type"])
            env[one["value"]] = Value(found, found)
        return env

    def _results(self, main: Mapping[str, Any], returned: Sequence[Value]) -> None:
        """Name the results: one that replaces an argument by that argument."""
        names = list(self.graph.inputs)
        replaced = {
            int(found[0]): name
            for name, one in zip(names, main["arguments"], strict=True)
            if (found := _BITS.findall(one["attributes"].get("tf.aliasing_output", "")))
        }
        for number, value in enumerate(returned):
            attributes = main["results"][number] if number < len(main["results"]) else {}
            info = attributes.get("jax.result_info", "").strip('"')
            name = replaced.get(number) or (info.partition("[")[2].rstrip("]") and info) or f"result {number}"
            lies = self.lies(attributes.get("sdy.sharding", ""))
            placed = digest(value.exact, lies) if lies.strip("(-, )") else value.exact
            self.graph.outputs[_unique(name, self.graph.outputs)] = Value(value.value, placed)

    def lies(self, sharding: str) -> str:
        """How an array is split, as `(fsdp, -)`, without the axes of one device."""
        found = re.search(r", \[(.*?)\]", sharding)
        if not found:
            return ""
        groups = [re.findall(r'"(\w+)"', one) for one in re.findall(r"\{[^}]*\}", found[1])]
        parts = ["+".join(axis for axis in axes if self.sizes.get(axis, 2) > 1) or "-" for axes in groups]
        return f"({', '.join(parts)})"

    def block(
        self, operations: Iterable[Operation], env: dict[int, Value], times: int, call: int | None, *, record: bool
    ) -> list[Value]:
        """What a block returns; its operations are kept with `record`, which a loop's first rounds go without.

        call: the place of the call that it is inlined for, if the function is a library's.
        """
        for one in operations:
            read = [env[number] for number in one["operands"]]
            name = one["name"]
            if name in _RETURNS:
                return read
            if name == "func.call":
                made = self.call(one, read, times, call, record=record)
            elif name == "stablehlo.while":
                made = self.loop(one, read, env, times, call, record=record)
            elif name in BRANCHES or name == "sdy.manual_computation":
                made = self.regions(one, read, env, times, call, record=record)
            elif name in PLACEMENTS:
                made = self.placement(one, read, times, call, record=record)
            elif name == BARRIER:
                made = [value._replace(exact=digest(BARRIER, value.exact)) for value in read]
            else:
                made = self.operation(one, read, env, times, call, record=record)
            env.update(zip(one["results"], made, strict=True))
        return []

    def call(
        self, one: Operation, read: Sequence[Value], times: int, call: int | None, *, record: bool
    ) -> Sequence[Value]:
        callee: str = one["callee"]
        if _RANDOM.fullmatch(callee):
            if callee not in self.random:  # its body without what it is called with
                self.random[callee] = ""
                self.random[callee] = self.body(callee)
            return self.keep(one, read, f"random bits {self.random[callee]}", times, call, record=record)
        function = self.functions[callee]
        env = dict(zip((value["value"] for value in function["arguments"]), read, strict=True))
        here = one["place"] if call is None or not self.in_library[one["place"]] else call
        return self.block(function["operations"], env, times, here, record=record)

    def body(self, callee: str) -> str:
        """The hash of a function by itself."""
        function = self.functions[callee]
        given = {
            one["value"]: Value(digest("given", number, one["type"]), digest("given", number, one["type"]))
            for number, one in enumerate(function["arguments"])
        }
        return digest(*(value.exact for value in self.block(function["operations"], given, 1, None, record=False)))

    def placement(
        self, one: Operation, read: Sequence[Value], times: int, call: int | None, *, record: bool
    ) -> list[Value]:
        lies = self.lies(one["attributes"].get("sharding", ""))
        if not lies.strip("(-, )"):
            return list(read)
        if record:
            key = lies, self.sources[self.at(one["place"], call)]
            self.graph.placements[key] = self.graph.placements.get(key, 0) + times
        return [value._replace(exact=digest("placed", lies, value.exact)) for value in read]

    def at(self, place: int, call: int | None) -> int:
        """The place that an operation is told at: a library's function at the line that calls it."""
        return place if call is None or not self.in_library[place] else call

    def operation(
        self,
        one: Operation,
        read: Sequence[Value],
        env: Mapping[int, Value],
        times: int,
        call: int | None,
        *,
        record: bool,
    ) -> list[Value]:
        """Any operation that computes; what it applies to elements (of a reduction, a sort) belongs to what it does."""
        inner = []
        for region in one.get("regions", ()):
            given = {
                number: Value(digest("element", place), digest("element", place))
                for place, number in enumerate(region["arguments"])
            }
            returned = self.block(region["operations"], {**env, **given}, 1, call, record=False)
            inner.append(digest(*(value.exact for value in returned)))
        return self.keep(one, read, "".join(inner), times, call, record=record)

    def keep(
        self, one: Operation, read: Sequence[Value], inner: str, times: int, call: int | None, *, record: bool
    ) -> list[Value]:
        name = one["name"]
        detail = self.detail(one)
        key = digest(name, detail, inner, one["reads"], one["makes"])
        sides = [[value.value for value in read], [value.exact for value in read]]
        if name in COMMUTATIVE:
            sides = [sorted(side) for side in sides]
        value, exact = digest(key, *sides[0]), digest(key, *sides[1])
        carries = 0
        for operand in read:
            carries |= operand.carries
        if name == "stablehlo.constant" and (found := _INTEGER.fullmatch(one["attributes"].get("value", ""))):
            self.integers[digest(exact, 0)] = int(found[1])
        if record:
            place = self.at(one["place"], call)
            reads = tuple(operand.exact for operand in read)
            made = tuple(digest(exact, n) for n in range(len(one["results"])))
            if name == "func.call":
                name = RANDOM
            self.graph.values.update(reads, made)
            self.graph.nodes.append(
                Node(
                    name=name,
                    key=key,
                    reads=reads,
                    made=made,
                    types=(tuple(one["reads"]), tuple(one["makes"])),
                    detail=detail,
                    source=self.sources[place],
                    phase=locate(self.stacks[one["place"]] or self.stacks[place])[0],
                    times=times,
                    flops=times * _count_flops(one) if name == "stablehlo.dot_general" else 0,
                    bytes=0 if name in FREE else times * sum(map(count_bytes, (*one["reads"], *one["makes"]))),
                )
            )
        return [Value(digest(value, n), digest(exact, n), carries) for n in range(len(one["results"]))]

    def detail(self, one: Operation) -> str:
        """An operation's attributes; a function that they name is told by its hash."""
        text = ", ".join(f"{name} = {value}" for name, value in one["attributes"].items() if name != "callee")
        if "@" not in text:
            return text
        return re.sub(r"@([\w.$-]+)", lambda found: self.body(found[1]) if found[1] in self.functions else "@", text)

    def regions(
        self,
        one: Operation,
        read: Sequence[Value],
        env: Mapping[int, Value],
        times: int,
        call: int | None,
        *,
        record: bool,
    ) -> list[Value]:
        """The branches of a conditional, each as if it ran; the body of a manual computation."""
        returned = []
        for region in one["regions"]:
            inner = {**env, **dict(zip(region["arguments"], read, strict=False))}
            returned.append(self.block(region["operations"], inner, times, call, record=record))
        index = read[:1] if one["name"] in BRANCHES else []
        made = []
        for parts in zip(*returned, strict=True):
            what = one["name"], self.detail(one)
            carries = 0
            for part in (*index, *parts):
                carries |= part.carries
            made.append(
                Value(
                    digest(*what, *(part.value for part in (*index, *parts))),
                    digest(*what, *(part.exact for part in (*index, *parts))),
                    carries,
                )
            )
        return made

    def loop(
        self,
        one: Operation,
        read: Sequence[Value],
        env: Mapping[int, Value],
        times: int,
        call: int | None,
        *,
        record: bool,
    ) -> list[Value]:
        """A loop's results. Its carries are told apart by what they begin with and become, round by round, until no
        round tells more of them apart; a result depends on all carries that its own is made of, and on the condition's.
        """
        condition, body = one["regions"]
        last = body["operations"][-1]["operands"]
        kept = [number == argument for number, argument in zip(last, body["arguments"], strict=True)]
        base = self.carries
        self.carries += len(read)  # those of a loop inside are others

        def go_round(colours: Sequence[Value], *, recorded: int = 0) -> tuple[list[Value], Value]:
            marked = [
                colour._replace(carries=read[n].carries if kept[n] else 1 << base + n)
                for n, colour in enumerate(colours)
            ]
            given = {**env, **dict(zip(condition["arguments"], marked, strict=True))}
            (test,) = self.block(condition["operations"], given, 1, call, record=False)
            given = {**env, **dict(zip(body["arguments"], marked, strict=True))}
            return self.block(body["operations"], given, recorded or 1, call, record=bool(recorded)), test

        colours, classes, rounds = list(read), 0, 0
        while rounds == 0 or (len({colour.exact for colour in colours}) > classes and rounds < _MOST_ROUNDS):
            classes, rounds = len({colour.exact for colour in colours}), rounds + 1
            made, test = go_round(colours)
            colours = [
                colour if kept[n] else Value(
                    digest("carry", read[n].value, made[n].value, test.value),
                    digest("carry", read[n].exact, made[n].exact, test.exact),
                )
                for n, colour in enumerate(colours)
            ]  # fmt: skip
        if record:
            given = {**env, **dict(zip(condition["arguments"], read, strict=True))}
            trips = self.trips(condition, given)
            self.graph.unknown_loops += trips is None
            # a difference in the body shall not make all that reads a carry another: it begins as the other's does
            go_round(read, recorded=times * (1 if trips is None else trips))
        self.carries = base
        return _close_loop(read, colours, [value.carries for value in made], test, kept, base)

    def trips(self, condition: Mapping[str, Any], inner: Mapping[int, Value]) -> int | None:
        """How often a loop goes round: its counter, from a constant on, is compared with a constant."""
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
                return None if start is None or limit is None else max(limit - start, 0)
        return None


def _close_loop(
    read: Sequence[Value],
    colours: Sequence[Value],
    made: Sequence[int],
    test: Value,
    kept: Sequence[bool],
    base: int,
) -> list[Value]:
    """A loop's results out of the last colours of its carries.

    made: the carries that each is made of; those below `base` are of loops around this one.
    """
    whole = (1 << base) - 1
    reached = [mask | test.carries | 1 << base + n | read[n].carries for n, mask in enumerate(made)]
    changed = True
    while changed:
        changed = False
        for n, mask in enumerate(reached):
            wider = mask
            for other, others in enumerate(reached):
                if mask >> base + other & 1:
                    wider |= others
            if wider != mask:
                reached[n], changed = wider, True
    results = []
    for n, colour in enumerate(colours):
        if kept[n]:
            results.append(read[n])
            continue
        among = [colours[other] for other in range(len(colours)) if reached[n] >> base + other & 1]
        results.append(
            Value(
                digest("while", colour.value, *sorted(one.value for one in among)),
                digest("while", colour.exact, *sorted(one.exact for one in among)),
                reached[n] & whole,
            )
        )
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


def shape_of(type_: str) -> tuple[tuple[int, ...], str]:
    """The shape and the type of the values of `tensor<4x256xbf16>`."""
    found = _TENSOR.match(type_)
    if not found:
        return (), ""
    return tuple(int(size) for size in found[1].split("x") if size), found[2]


def count_bytes(type_: str) -> int:
    """The bytes of an array of this type; 0 for what is none."""
    shape, kind = shape_of(type_)
    bits = _BITS.findall(kind)
    return math.prod(shape) * max(int(bits[0]) // 8, 1) if bits else 0


def _count_flops(one: Operation) -> int:
    """Of a matrix product: a product and a sum each one."""
    text = one["attributes"].get("dot_dimension_numbers", "")
    found = re.search(r"lhs_contracting_dimensions = \[([\d, ]*)\]", text)
    left, made = shape_of(one["reads"][0])[0], shape_of(one["makes"][0])[0]
    axes = [int(axis) for axis in found[1].split(",")] if found and found[1] else []
    return 2 * math.prod(made) * math.prod(left[axis] for axis in axes)
