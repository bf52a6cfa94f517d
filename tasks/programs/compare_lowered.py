"""Decides whether two StableHLO programs are the same computation; lists operations that differ, by function."""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.programs.build_graph import Transcript, make_graph
from tasks.programs.read_with_jax import read_with_jax
from tasks.programs.source_lines import name_function
from tasks.programs.value_graph import FREE, RANDOM, Graph, Input, Node, array_type
from tasks.records.explanation import CodeLine, InputDifference, OperationDifference, ProgramAnswer, ProgramExplanation
from tasks.records.text import counted

MAX_LISTED = 40  # limit of rows in the record; a row is a function in one pass
MAX_NAMED = 5  # limit of named operations in a row, per arm
MIN_SHARE = 0.0005  # smaller shares of the step's FLOPs or bytes are not shown
# Constants (_LITERAL), and operations that only reshape or convert a constant (_REPEATS). They are shown as part of the
# operation that reads them.
_LITERAL = frozenset({"stablehlo.constant", "stablehlo.iota"})
_REPEATS = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert"})

type Literals = Mapping[str, str]  # exact hash of a constant → its text


class NodeDifference(NamedTuple):
    """A node (operation) of one program that the other program lacks, or computes from other values."""

    side: int  # program of `node`: 0 for the baseline, 1 for the candidate
    node: Node
    partner: Node | None  # node of the other program with the same `key`, preferably of the same place; or None
    is_first: bool  # True if the other program also computes all operands of `node` that are not constants


def compare_program_files(
    baseline: Path,
    candidate: Path,
    names: tuple[str, str] = ("baseline", "candidate"),
    roots: tuple[str, str] = ("", ""),
) -> ProgramExplanation:
    """Compare two files of StableHLO text, gzipped or not. Raises ValueError if one cannot be read.

    roots: the arms' folders, to which source paths are made relative.
    """
    transcripts = read_with_jax("stablehlo", [baseline, candidate])
    return compare_transcripts(transcripts[0], transcripts[1], names, roots)


def compare_transcripts(
    baseline: Transcript, candidate: Transcript, names: tuple[str, str], roots: tuple[str, str] = ("", "")
) -> ProgramExplanation:
    """Compare two programs, given as transcripts (the programs as JSON)."""
    sides = (make_graph(baseline, roots[0]), make_graph(candidate, roots[1]))
    hashes = (sides[0].sha256, sides[1].sha256)
    if baseline["text_sha256"] == candidate["text_sha256"]:
        return _same("same text", "both arms lower the same StableHLO text", hashes)
    if hashes[0] == hashes[1]:
        sentence = "both arms lower the same computation; only the order or the names in its text differ"
        return _same("same computation in another order", sentence, hashes)
    inputs = tuple(_compare_inputs(*sides))
    placements = tuple(_compare_placements(sides, names))
    literals = find_literals(sides[0]), find_literals(sides[1])
    found = [one for side in (0, 1) for one in _find_differences(sides, literals, side)]
    rows = _group(found, sides, literals, names)
    return ProgramExplanation(
        answer="differs",
        sentence=_say_difference(sides, rows, inputs, placements),
        hashes=hashes,
        operations=tuple(rows[:MAX_LISTED]),
        left_out=max(len(rows) - MAX_LISTED, 0),
        inputs=inputs,
        placements=placements,
    )


def _same(answer: ProgramAnswer, sentence: str, hashes: tuple[str, str]) -> ProgramExplanation:
    return ProgramExplanation(answer=answer, sentence=sentence, hashes=hashes)


def _find_differences(sides: Sequence[Graph], literals: Sequence[Literals], side: int) -> Iterator[NodeDifference]:
    """Yield the nodes of program `side` whose results the other program lacks, without constants and consequences.

    A node is no consequence if it has no partner, reads only common values, or reads other constants than its partner.
    """
    (graph, own), (other, others) = [(sides[n], literals[n]) for n in (side, 1 - side)]
    alone = [node for node in graph.nodes if node.made and node.made[0] not in other.values]
    partners = _pair(alone, [node for node in other.nodes if node.made and node.made[0] not in graph.values])
    for node in alone:
        if node.made[0] in own:
            continue  # a constant, which is shown with the operation that reads it
        partner = partners.get(id(node))
        is_first = all(read in other.values for read in node.reads if read not in own)
        rereads = partner is not None and read_literals(node, own) != read_literals(partner, others)
        if partner is None or is_first or rereads:
            yield NodeDifference(side, node, partner, is_first)


def _pair(left: Iterable[Node], right: Iterable[Node]) -> dict[int, Node]:
    """Return `id()` of a left node → right node with the same key. Equal pass, function and line have priority."""
    found: dict[int, Node] = {}
    here, there = list(left), list(right)
    keys: tuple[Callable[[Node], object], ...] = (
        lambda node: (node.key, node.phase, node.source.function, node.source.line),
        lambda node: (node.key, node.phase, node.source.function),
        lambda node: (node.key, node.source.function),
        lambda node: node.key,
    )
    for key in keys:
        spare: dict[object, deque[Node]] = defaultdict(deque)
        for node in there:
            spare[key(node)].append(node)
        for node in here:
            if waiting := spare[key(node)]:
                found[id(node)] = waiting.popleft()
        taken = {id(node) for node in found.values()}
        here = [node for node in here if id(node) not in found]
        there = [node for node in there if id(node) not in taken]
    return found


def find_literals(graph: Graph) -> Literals:
    """Return hash → text for the program's constants, and for values that only reshape or convert a constant."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.name in _LITERAL:
            words = re.search(r"dense<(.*?)>", node.detail)
            found[node.made[0]] = _shorten_number(words[1]) if words else node.name.partition(".")[2]
        elif node.name in _REPEATS and node.reads[0] in found:
            found[node.made[0]] = found[node.reads[0]]
    return found


def read_literals(node: Node, literals: Literals) -> list[str]:
    """Return the texts of the constants that a node reads."""
    return [literals[read] for read in node.reads if read in literals]


def _shorten_number(text: str) -> str:
    if re.fullmatch(r"-?\d+", text):
        return text  # integers keep all digits
    try:
        return f"{float(text):.7g}"  # a float32 has about 7 digits
    except ValueError:  # a hexadecimal number, true, or an array
        return text[:24]


def _describe(node: Node, literals: Literals) -> str:
    """Return a node as text, e.g. `convert bf16 → f32[4,256,64]` or `add f32[4,256,1] with 1e-05`."""
    reads = [array_type(kind) for read, kind in zip(node.reads, node.types[0], strict=True) if read not in literals]
    (shape, kind) = array_type(node.types[1][0]) if node.types[1] else ((), "")
    name = "random bits" if node.name == RANDOM else node.name.rpartition(".")[2]
    made = f"{kind}[{','.join(map(str, shape))}]"
    kinds = [one for _, one in reads]
    if name == "convert" or any(one != kind for one in kinds[:2]):
        made = f"{' × '.join(kinds[:2])} → {made}"
    with_ = read_literals(node, literals)
    return f"{name} {made}" + (f" with {', '.join(with_)}" if with_ else "")


def _group(
    found: Iterable[NodeDifference], sides: Sequence[Graph], literals: Sequence[Literals], names: tuple[str, str]
) -> list[OperationDifference]:
    """Return one row per function and pass. Rows that have a difference with `is_first` precede the others.

    Operations in FREE count only with `is_first`.
    """
    groups: dict[tuple[str, str], list[NodeDifference]] = defaultdict(list)
    for one in found:
        if one.node.name not in FREE or one.is_first:
            # a candidate's node belongs to its partner's function, so that both are in one row
            source = one.partner.source if one.side and one.partner else one.node.source
            groups[name_function(source), one.node.phase].append(one)
    flops, size = (max(getattr(side, name) for side in sides) or 1 for name in ("flops", "bytes"))
    rows: list[tuple[tuple[bool | float, ...], OperationDifference]] = []
    for place, ((_, phase), listed) in enumerate(groups.items()):
        row = _make_row(listed, phase, literals, (flops, size), names)
        # a row with an operation that the other program lacks precedes the rows that read the operation's result
        lacks = any(one.is_first and one.partner is None for one in listed)
        last = float(place) if row.first else -max(row.flops_share, row.bytes_share)
        rows.append(((not row.first, row.phase == "recomputed", not lacks, last), row))
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def _make_row(
    listed: Sequence[NodeDifference],
    phase: str,
    literals: Sequence[Literals],
    totals: tuple[int, int],
    names: tuple[str, str],
) -> OperationDifference:
    nodes = [[one.node for one in listed if one.side == side] for side in (0, 1)]
    words = [_count_words(here, literal) for here, literal in zip(nodes, literals, strict=True)]
    lines = [_line_of(listed, side) for side in (0, 1)]
    shares = [
        max(sum(getattr(node, name) for node in here) for here in nodes) / total
        for name, total in zip(("flops", "bytes"), totals, strict=True)
    ]
    return OperationDifference(
        sentence=_say_row(words, lines, phase, shares, names),
        phase=phase,
        baseline=words[0],
        candidate=words[1],
        baseline_line=lines[0],
        candidate_line=lines[1],
        times=(sum(node.times for node in nodes[0]), sum(node.times for node in nodes[1])),
        flops_share=shares[0],
        bytes_share=shares[1],
        first=any(one.is_first for one in listed),
    )


def _count_words(nodes: Iterable[Node], literals: Literals) -> tuple[str, ...]:
    times_of: Counter[str] = Counter()
    for node in nodes:
        times_of[_describe(node, literals)] += node.times
    named = [f"{times} × {what}" for what, times in times_of.most_common(MAX_NAMED)]
    more = len(times_of) - MAX_NAMED
    return (*named, f"and {more} more") if more > 0 else tuple(named)


def _line_of(listed: Sequence[NodeDifference], side: int) -> CodeLine | None:
    """Return the line of the side's first node with `is_first`, else of its first node; None if it has no file."""
    own = [one for one in listed if one.side == side]
    first = next((one for one in own if one.is_first), own[0] if own else None)
    return first.node.source if first is not None and first.node.source.file else None


def _say_row(
    words: Sequence[tuple[str, ...]],
    lines: Sequence[CodeLine | None],
    phase: str,
    shares: Sequence[float],
    names: tuple[str, str],
) -> str:
    places = list(dict.fromkeys(line.place for line in lines if line))
    parts = [f"{100 * share:.1f} % of the {what}" for share, what in zip(shares, ("FLOPs", "bytes"), strict=True)]
    cost = ", ".join(part for part, share in zip(parts, shares, strict=True) if share >= MIN_SHARE)
    if all(words):
        what = f"{names[0]} computes {', '.join(words[0])}; {names[1]} {', '.join(words[1])}"
    else:
        side = 0 if words[0] else 1
        what = f"{names[side]} alone computes {', '.join(words[side])}"
    return f"{' / '.join(places) or 'no known line'}, {phase}: {what}" + (f"; {cost}" if cost else "")


def _compare_inputs(baseline: Graph, candidate: Graph) -> Iterator[InputDifference]:
    for name in dict.fromkeys((*baseline.inputs, *candidate.inputs)):
        sides = [graph.inputs.get(name) for graph in (baseline, candidate)]
        if sides[0] != sides[1]:
            left, right = ("" if one is None else _say_input(one) for one in sides)
            yield InputDifference(name=name, baseline=left, candidate=right)


def _say_input(one: Input) -> str:
    shape, kind = array_type(one.type)
    split = f" {one.sharding}" if one.sharding.strip("(-, )") else ""
    return f"{kind}[{','.join(map(str, shape))}]{split}" + (", donated" if one.donated else "")


def _compare_placements(sides: tuple[Graph, Graph], names: tuple[str, str]) -> Iterator[str]:
    """Yield a sentence per sharding and function if one program executes that sharding constraint more often there."""
    counts = [Counter[tuple[str, str]](), Counter[tuple[str, str]]()]
    lines: dict[tuple[str, str], CodeLine] = {}
    for graph, its_counts in zip(sides, counts, strict=True):
        for (lies, source), times in graph.placements.items():
            its_counts[lies, source.function] += times
            lines.setdefault((lies, source.function), source)
    for number, name in enumerate(names):
        for key, times in (counts[number] - counts[1 - number]).items():
            yield f"{name} alone constrains {times} × to {key[0]} at {lines[key].place}"


def _say_difference(
    sides: tuple[Graph, Graph],
    rows: Sequence[OperationDifference],
    inputs: Sequence[InputDifference],
    placements: Sequence[str],
) -> str:
    if rows:
        start = f"{counted(len(rows), 'place')}, first at " if len(rows) > 1 else ""
        return f"the programs differ at {start}{rows[0].sentence}"
    if inputs:
        one = inputs[0]
        sides_said = f"{one.baseline or 'absent'} and {one.candidate or 'absent'}"
        return f"the same operations on other inputs: {one.name} is {sides_said}"
    if placements:
        return f"the same operations, placed otherwise: {placements[0]}"
    values = [sorted(value.value for value in side.outputs.values()) for side in sides]
    if values[0] == values[1]:
        return "the same values, but the arms keep and recompute different ones"
    return "the same operations, wired otherwise in a loop"
