"""Finds the differences between two compiled programs and the cost of each difference, the largest cost first.

A cost is a share of the larger program's cycles, of its bytes in collectives, or of its memory (`Scale`). A unit is a
scheduled instruction, such as a fusion with everything inside it (`tasks.programs.program_work.Unit`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tasks.programs.program_work import FIRST_LINE, Analysis, Unit, add_work, locate
from tasks.records.compiled import CompiledProgram, HeavyArray, InputArray, ProgramComparison, ProgramDifference, Work
from tasks.records.shared_fields import Source
from tasks.records.text import counted

MIN_SHARE = 0.001  # smallest cost of a listed difference
MAX_LISTED = 40  # limit of listed differences
HEAVY = 12  # number of the largest input arrays to list
RECOMPUTED = 0.1  # relative difference of recomputed FLOPs above which rematerialisation is reported as one difference
MIB = 2**20
NONE = "none"  # text for a side without the array or the units


type Units = Sequence[Sequence[Unit]]  # of the baseline and of the candidate


class ProgramSide(NamedTuple):
    """One arm's program. analysis: None without the optimised text."""

    program: CompiledProgram
    analysis: Analysis | None


class Scale(NamedTuple):
    """The totals of a step that shares refer to; each is the larger one of the two programs' totals."""

    cycles: int  # estimated by the compiler
    collective_bytes: int
    memory: int  # bytes on one device

    def share(self, cycles: int = 0, collective_bytes: int = 0, memory: int = 0) -> tuple[float, str]:
        """Return the largest of the three shares by magnitude, and the shares that are not tiny as text."""
        shares = [
            (cycles / self.cycles if self.cycles else 0.0, "of the cycles"),
            (collective_bytes / self.collective_bytes if self.collective_bytes else 0.0, "of the bytes in collectives"),
            (memory / self.memory if self.memory else 0.0, "of the memory"),
        ]
        most = max((value for value, _ in shares), key=abs)
        parts = [f"{100 * value:+.1f} % {what}" for value, what in shares if abs(value) >= MIN_SHARE / 2]
        return most, ", ".join(parts) or "nothing that can be counted"

    def share_of_work(self, before: Work, after: Work) -> tuple[float, str]:
        """Return `share` for the changes of cycles and of collective bytes from `before` to `after`."""
        return self.share(after.cycles - before.cycles, after.collective_bytes - before.collective_bytes)


def compare_programs(baseline: ProgramSide, candidate: ProgramSide) -> ProgramComparison:
    """Return the comparison of two programs. It lists no difference if `same_text`."""
    sides = (baseline, candidate)
    found = [] if same_text(*sides) else list(_differences(sides, _scale(sides)))
    found.sort(key=lambda one: (-abs(one.share), one.share < 0, one.what, one.where))
    listed = [one for one in found if abs(one.share) >= MIN_SHARE][:MAX_LISTED]
    return ProgramComparison(
        topology=candidate.program.topology,
        devices=candidate.program.devices,
        hbm_bytes=candidate.program.hbm_bytes,
        differences=tuple(listed),
        left_out=len(found) - len(listed),
        arrays=tuple(_heaviest(*(side.program.arrays for side in sides))),
        baseline=baseline.analysis.work if baseline.analysis else None,
        candidate=candidate.analysis.work if candidate.analysis else None,
    )


def same_text(baseline: ProgramSide, candidate: ProgramSide) -> bool:
    """Return whether both optimised programs are the same except for names and locations. False if unknown."""
    prints = [side.program.fingerprints and side.program.fingerprints.optimised for side in (baseline, candidate)]
    return prints[0] is not None and prints[0] == prints[1]


def _scale(sides: Sequence[ProgramSide]) -> Scale:
    work = [side.analysis.work.work for side in sides if side.analysis]
    return Scale(
        cycles=max((one.cycles for one in work), default=0),
        collective_bytes=max((one.collective_bytes for one in work), default=0),
        memory=max((side.program.memory.total for side in sides if side.program.memory), default=0),
    )


def _differences(sides: Sequence[ProgramSide], scale: Scale) -> Iterator[ProgramDifference]:
    yield from _compare_arrays(sides, scale)
    yield from _compare_donation(sides, scale)
    every = [side.analysis.units for side in sides if side.analysis is not None]
    if len(every) < 2:
        return
    alone: Units = _without_equals(every, _cost_and_shapes)
    alone = _without_equals(alone, _cost_of_collective)  # the same collective in another pass is no difference
    recomputed, _ = _partition(every, _is_recomputed)
    flops = [sum(unit.work.flops for unit in units) for units in recomputed]
    if abs(flops[0] - flops[1]) > RECOMPUTED * max(flops):
        _, alone = _partition(alone, _is_recomputed)
        kept, alone = _partition(alone, _keeps)
        yield _compare_recomputing(sides, recomputed, kept, scale)
    else:
        yield from _compare_temporary(sides, scale)
    alone = _without_equals(alone, _cost)
    types = [{unit.detail for unit in units if unit.kind == "matmul"} for units in every]
    if changed := types[0] ^ types[1]:
        widened, alone = _partition(alone, lambda unit: _involves_types(unit, changed))
        yield _compare_types(widened, changed, scale)
    yield from _compare_units(alone, scale)


def _partition(sides: Units, condition: Callable[[Unit], bool]) -> tuple[Units, Units]:
    """Return each side's units that meet the condition, and each side's other units."""
    chosen = [[unit for unit in units if condition(unit)] for units in sides]
    return chosen, [[unit for unit in units if not condition(unit)] for units in sides]


def _compare_arrays(sides: Sequence[ProgramSide], scale: Scale) -> Iterator[ProgramDifference]:
    """Yield the inputs that differ in shape, type or sharding, or that one side lacks, grouped by the change.

    Yields nothing if the sides have no input name in common.
    """
    left, right = ({array.path: array for array in side.program.arrays} for side in sides)
    changes: dict[str, list[str]] = defaultdict(list)
    if not left.keys() & right.keys():  # the trainers have no input name in common
        return
    for path in left.keys() | right.keys():
        if what := _describe_change(left.get(path), right.get(path)):
            changes[what].append(path)
    for what, paths in changes.items():
        sizes = [sum(side[path].bytes_per_device for path in paths if path in side) for side in (left, right)]
        share, cost = scale.share(memory=sizes[1] - sizes[0])
        first = min(paths, key=lambda path: (-abs(_weight(right, path) - _weight(left, path)), path))
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield ProgramDifference(
            what=f"inputs: {what}",
            where=f"{first}{more}",
            baseline=_describe(left[first]) if first in left else NONE,
            candidate=_describe(right[first]) if first in right else NONE,
            share=share,
            cost=f"{cost}: {sizes[0] / MIB:,.2f} → {sizes[1] / MIB:,.2f} MiB",
        )


def _weight(side: Mapping[str, InputArray], path: str) -> int:
    return side[path].bytes_per_device if path in side else 0


def _describe_change(left: InputArray | None, right: InputArray | None) -> str:
    """Return the change of an input as text; empty if there is none."""
    if left is None or right is None:
        return "only in the candidate" if left is None else "only in the baseline"
    return " and ".join(name for name in ("shape", "dtype", "sharding") if getattr(left, name) != getattr(right, name))


def _compare_donation(sides: Sequence[ProgramSide], scale: Scale) -> Iterator[ProgramDifference]:
    """Yield the difference in outputs that are written in place of inputs (donation), unless it is small or unknown."""
    memories = [side.program.memory for side in sides if side.program.memory is not None]
    if len(memories) < 2:
        return
    kept = [memory.output - memory.alias for memory in memories]  # bytes of outputs without an input's memory
    size = kept[1] - kept[0]
    share, cost = scale.share(memory=size)
    if abs(share) < MIN_SHARE:
        return
    sentences = [
        f"{side.analysis.work.aliases if side.analysis else '?'} outputs in place of an input, "
        f"{memory.alias / MIB:,.2f} of {memory.output / MIB:,.2f} MiB"
        for side, memory in zip(sides, memories, strict=True)
    ]
    yield ProgramDifference(
        what="donation",
        where="outputs written in place of inputs",
        baseline=sentences[0],
        candidate=sentences[1],
        share=share,
        cost=f"{cost}: {size / MIB:+,.2f} MiB",
        baseline_source=FIRST_LINE,  # the header lists them
        candidate_source=FIRST_LINE,
    )


def _is_recomputed(unit: Unit) -> bool:
    """Return whether the backward pass recomputes a result of the forward pass in this unit.

    False for collectives, because the backward pass may also need them without recomputation.
    """
    return not unit.collectives and locate(unit.instruction.op_name)[0] == "recomputed"


def _keeps(unit: Unit) -> bool:
    """Return whether a unit, by its operation, may save values of a loop for the backward pass, or read them back."""
    slices = ("dynamic_update_slice", "dynamic_slice", "broadcast_in_dim")
    return unit.kind == "other" and (unit.detail == "AllocateBuffer" or unit.instruction.op_name.endswith(slices))


def _compare_recomputing(
    sides: Sequence[ProgramSide], recomputed: Units, kept: Units, scale: Scale
) -> ProgramDifference:
    """Return the difference in rematerialisation: values that the backward pass recomputes, or that are kept for it.

    recomputed: the units that recompute values. kept: the units that store or read kept values.
    """
    cycles = [add_work(unit.work for unit in (*recomputed[side], *kept[side])).cycles for side in (0, 1)]
    memory = _temporary(sides[1]) - _temporary(sides[0])
    share, cost = scale.share(cycles=cycles[1] - cycles[0], memory=memory)
    sentences = [
        f"recomputed {_describe_units(recomputed[side])}"
        + (f"; kept {_describe_units(kept[side])}" if kept[side] else "")
        for side in (0, 1)
    ]
    return ProgramDifference(
        what="recomputing",
        where="values that the backward pass computes again, or that are kept for it",
        baseline=sentences[0],
        candidate=sentences[1],
        share=share,
        cost=f"{cost}: temporary memory {memory / MIB:+,.2f} MiB",
        baseline_source=_costliest(recomputed[0] or kept[0]),
        candidate_source=_costliest(recomputed[1] or kept[1]),
    )


def _involves_types(unit: Unit, types: Collection[str]) -> bool:
    """Return whether a unit is a matrix product, or a collective on a dtype in `types`.

    types: operand types of matrix products, such as `bf16×bf16`, that only one side has.
    """
    if unit.kind == "matmul":
        return True
    known = {dtype for pair in types for dtype in pair.replace(", ", "×").split("×")}
    return bool(unit.collectives) and any(shape.dtype in known for shape in unit.instruction.shapes)


def _compare_types(units: Units, types: Collection[str], scale: Scale) -> ProgramDifference:
    """Return the difference in the operand types of matrix products, including collectives on such operands."""
    before, after = (add_work(unit.work for unit in side) for side in units)
    share, cost = scale.share_of_work(before, after)
    products = [[unit for unit in side if unit.kind == "matmul"] for side in units]
    scopes = sorted({locate(unit.instruction.op_name)[1] for side in products for unit in side if unit.detail in types})
    return ProgramDifference(
        what="types of products",
        where=", ".join(scope or "place unknown" for scope in scopes),
        baseline=_describe_units(units[0]),
        candidate=_describe_units(units[1]),
        share=share,
        cost=cost,
        baseline_source=_costliest(products[0]),
        candidate_source=_costliest([unit for unit in products[1] if unit.detail in types] or products[1]),
    )


def _compare_temporary(sides: Sequence[ProgramSide], scale: Scale) -> Iterator[ProgramDifference]:
    sizes = [_temporary(side) for side in sides]
    share, cost = scale.share(memory=sizes[1] - sizes[0])
    if abs(share) >= MIN_SHARE:
        yield ProgramDifference(
            what="temporary memory",
            where="values kept between instructions",
            baseline=f"{sizes[0] / MIB:,.2f} MiB",
            candidate=f"{sizes[1] / MIB:,.2f} MiB",
            share=share,
            cost=cost,
        )


def _temporary(side: ProgramSide) -> int:
    return side.program.memory.temp if side.program.memory else 0


def _without_equals(sides: Units, key: Callable[[Unit], object]) -> list[list[Unit]]:
    """Return each side's units that have no equal unit on the other side.

    Equal units have the same key, and are paired one to one. A unit with the key None equals no unit.
    """
    keys = [Counter(map(key, units)) for units in sides]
    common = keys[0] & keys[1]
    del common[None]
    rest = []
    for units in sides:
        spare = common.copy()
        alone = []
        for unit in units:
            if spare[key(unit)] > 0:
                spare[key(unit)] -= 1
            else:
                alone.append(unit)
        rest.append(alone)
    return rest


def _cost(unit: Unit) -> object:
    """Return a unit's kind and cost, without its place in the program."""
    return unit.kind, unit.detail, unit.runs.times, unit.work


def _cost_and_shapes(unit: Unit) -> object:
    return _cost(unit), unit.instruction.opcode, unit.instruction.shapes


def _cost_of_collective(unit: Unit) -> object:
    return _cost(unit) if unit.collectives else None


def _compare_units(alone: Units, scale: Scale) -> Iterator[ProgramDifference]:
    """Yield the differences of the remaining units, grouped by kind, phase and scope."""
    groups: dict[tuple[str, str, str], tuple[list[Unit], list[Unit]]] = defaultdict(lambda: ([], []))
    for side, units in enumerate(alone):
        for unit in units:
            # all collectives are one group, because one kind may replace another
            kind = "collective" if unit.collectives else unit.kind
            groups[kind, *locate(unit.instruction.op_name)][side].append(unit)
    for (_, phase, scope), (left, right) in groups.items():
        before, after = (add_work(unit.work for unit in units) for units in (left, right))
        share, cost = scale.share_of_work(before, after)
        yield ProgramDifference(
            what=_name_group(right or left),
            where=", ".join(part for part in (scope or "place unknown", phase) if part),
            baseline=_describe_units(left),
            candidate=_describe_units(right),
            share=share,
            cost=cost,
            baseline_source=_costliest(left),
            candidate_source=_costliest(right),
        )


def _name_group(units: Sequence[Unit]) -> str:
    """Return a name such as `all-gather in a loop`."""
    return " and ".join(sorted({"other work" if unit.kind == "other" else unit.kind for unit in units})) + (
        " in a loop" if any(unit.runs.loops for unit in units) else ""
    )


def _costliest(units: Sequence[Unit]) -> Source | None:
    if not units:
        return None
    return max(units, key=lambda unit: (unit.work.collective_bytes, unit.work.cycles)).source


def _describe_units(units: Sequence[Unit]) -> str:
    """Return a text such as `2 instructions, run 16 times, bf16×bf16: 10,240 cycles`; NONE without units."""
    if not units:
        return NONE
    work = add_work(unit.work for unit in units)
    times = sorted({unit.runs.times for unit in units})
    often = f"run {times[0]} times" if len(times) == 1 else f"run up to {times[-1]} times"
    kinds = sorted({unit.kind for unit in units if unit.collectives})
    types = sorted({unit.detail for unit in units if unit.detail})
    facts = [f"{work.collective_bytes / MIB:,.2f} MiB in collectives"] if work.collective_bytes else []
    facts += [f"{work.cycles:,} cycles"] if work.cycles else []
    head = ", ".join([counted(len(units), "instruction"), *([often] if times[-1] > 1 else []), *kinds, *types])
    return f"{head}: {', '.join(facts)}" if facts else head


def _heaviest(left: Sequence[InputArray], right: Sequence[InputArray]) -> Iterator[HeavyArray]:
    sides = [{array.path: array for array in side} for side in (left, right)]

    def weight(path: str) -> tuple[int, str]:
        return -max(side[path].bytes_per_device for side in sides if path in side), path

    for path in sorted(sides[0].keys() | sides[1].keys(), key=weight)[:HEAVY]:
        before, after = (_describe(side[path]) if path in side else "" for side in sides)
        yield HeavyArray(path=path, baseline=before, candidate=after)


def _describe(array: InputArray) -> str:
    shape = ",".join(map(str, array.shape))
    return f"{array.dtype}[{shape}] {array.sharding} {array.bytes_per_device / MIB:,.2f} MiB"
