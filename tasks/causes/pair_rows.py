"""Pairs tensors that differ between two arms, although they are results of the same place in the program."""

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tasks.causes.arm_values import Parting
from tasks.causes.tensor_rows import TensorRow

_MOST = 6000  # most rows to align in a loop or branch; the time grows with their square
_KEYS: tuple[Callable[[TensorRow], str], ...] = (  # rows with equal keys are paired: strictest key first
    lambda row: f"{row.operation}|{row.type}|{row.params}|{row.function}|{row.output}",
    lambda row: f"{row.operation}|{row.type}|{row.output}",
    lambda row: f"{row.operation}|{row.function}|{row.output}",
)


def pair_frontiers(left: Parting, right: Parting) -> dict[int, int]:
    """Pair frontier rows (see `Parting`) that read the same tensors, first those of equal operations: left → right."""
    pairs: dict[int, int] = {}
    for with_operation in (True, False):
        spare: dict[tuple[object, ...], list[int]] = defaultdict(list)
        taken = set(pairs.values())
        for n in right.frontier:
            if n not in taken:
                spare[_signature(right, n, with_operation)].append(n)
        for n in left.frontier:
            found = spare.get(_signature(left, n, with_operation))
            if n not in pairs and found:
                pairs[n] = found.pop(0)
    return pairs


def _signature(parting: Parting, n: int, with_operation: bool) -> tuple[object, ...]:
    row, inputs = parting.arm.rows[n], parting.arm.inputs(parting.arm.rows[n])
    if n in parting.own_draws.keys:
        return row.operation, row.path, row.direction, row.type, row.output
    if with_operation:
        return row.operation, row.path, row.direction, inputs, row.output
    # without inputs, all operations would match: only rows with the same number may
    return row.path, row.direction, inputs or n, row.output


def pair_divergent(left: Parting, right: Parting, paired: dict[int, int]) -> dict[int, int]:
    """Return `paired` and pairs of the other divergent rows, aligned in order within each loop, branch and pass."""
    pairs, taken = dict(paired), set(paired.values())
    theirs = _by_region(right, (n for n in right.divergent if n not in taken))
    for region, ours in _by_region(left, (n for n in left.divergent if n not in pairs)).items():
        rest = ours, theirs.get(region, [])
        for key in _KEYS:
            keys = [[key(side.arm.rows[n]) for n in its] for side, its in zip((left, right), rest, strict=True)]
            found = _align(*rest, *keys)
            pairs.update(found)
            used = set(found.values())
            rest = [n for n in rest[0] if n not in found], [n for n in rest[1] if n not in used]
    return pairs


def _by_region(parting: Parting, numbers: Iterable[int]) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n in sorted(numbers):
        row = parting.arm.rows[n]
        found[row.path, row.direction].append(n)
    return found


def _align(
    ours: Sequence[int], theirs: Sequence[int], our_keys: Sequence[str], their_keys: Sequence[str]
) -> dict[int, int]:
    if our_keys == their_keys:
        return dict(zip(ours, theirs, strict=True))
    matcher = difflib.SequenceMatcher(None, our_keys[:_MOST], their_keys[:_MOST], autojunk=False)
    found: dict[int, int] = {}
    for block in matcher.get_matching_blocks():
        found.update(zip(ours[block.a : block.a + block.size], theirs[block.b : block.b + block.size], strict=True))
    return found
