"""Merges equal roots into one root with a count, and lists operations that only one arm has."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from tasks.causes.describe_root import Found
from tasks.causes.tensor_rows import TensorRow
from tasks.records.observation import OnlyHere, Pass, Root

MOST_ROOTS, MOST_ONLY = 40, 40
_ARMS: tuple[Literal["baseline", "candidate"], ...] = ("baseline", "candidate")


def group_roots(found: Sequence[Found]) -> list[Root]:
    """Return one root, with its count, for each source line, operation and reason, in the order of first occurrence."""
    groups: dict[tuple[str, ...], list[Root]] = {}
    for item in found:
        groups.setdefault(item.group, []).append(item.root)
    roots = []
    for members in list(groups.values())[:MOST_ROOTS]:
        first = members[0]
        more = f" ({len(members)} times)" if len(members) > 1 else ""
        roots.append(first.model_copy(update={"count": len(members), "sentence": first.sentence + more}))
    return roots


def _kind_of(row: TensorRow) -> tuple[str, str, str, Pass]:
    return row.operation, row.type, row.function, row.direction


def list_only(baseline: Sequence[TensorRow], candidate: Sequence[TensorRow]) -> tuple[OnlyHere, ...]:
    """Return the operations that a function of one arm has more often than that of the other arm, by source line.

    Counts operations, not values, because values may differ only as a consequence of an earlier difference.
    """
    counts = [Counter(map(_kind_of, rows)) for rows in (baseline, candidate)]
    values = [{row.digest for row in rows} for rows in (baseline, candidate)]
    found: list[OnlyHere] = []
    for side, (arm, rows) in enumerate(zip(_ARMS, (baseline, candidate), strict=True)):
        quota = counts[side] - counts[1 - side]
        places: Counter[tuple[str, str, str, Pass]] = Counter()
        known = values[1 - side]
        for row in sorted(rows, key=lambda row: row.digest in known):
            if quota[_kind_of(row)] > 0:
                quota[_kind_of(row)] -= 1
                places[row.operation, row.type, row.place, row.direction] += 1
        found += [
            OnlyHere(arm=arm, operation=operation, type=kind, place=place, direction=direction, count=count)
            for (operation, kind, place, direction), count in places.most_common(MOST_ONLY)
        ]
    return tuple(found)
