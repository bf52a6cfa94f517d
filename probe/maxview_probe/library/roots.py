"""Finds the operations at which two functions begin to differ, from their values in float64 of all operations."""

import json
from collections.abc import Iterator, Sequence
from math import hypot
from typing import Any, NamedTuple

from maxview_probe.library.result import Root
from maxview_probe.observe.equal_values import ROUNDINGS, name_values
from maxview_probe.observe.evaluate_step import StepEvaluation
from maxview_probe.observe.other_arm import Draws

MAX_ROOTS = 8


class Evaluated(NamedTuple):
    """All values of one function."""

    arguments: list[Any]  # what `take_fingerprint` returns
    rows: list[dict[str, Any]]
    results: list[list[Any]]  # the origin of each result

    def moved(self, n: int) -> float:
        """Return the norm by which another rounding of every operation moves a result; 0 if unknown."""
        measured = self._measured(self.results[n])
        return hypot(measured[5], measured[9]) if isinstance(measured, list) else 0.0

    def _measured(self, origin: Sequence[Any]) -> Any:
        if origin[0] == "row":
            return self.rows[origin[1]]["v"][-1]
        return self.arguments[origin[1]][-1] if origin[0] == "arg" else ""


def evaluate(closed: Any, arguments: Sequence[Any]) -> Evaluated:
    """Return the values of all operations."""
    lines: list[str] = []
    StepEvaluation(lines.append, Draws({})).run(closed, arguments)
    first, *rows, last = (json.loads(line) for line in lines)
    return Evaluated(first["arguments"], rows, last["results"])


def are_rounding(left: Evaluated, right: Evaluated, n: int, distance: float) -> bool:
    """Return whether a distance of both functions' n-th result is what another rounding of their operations makes."""
    return distance <= ROUNDINGS * max(left.moved(n), right.moved(n))


def find_roots(old: Evaluated, new: Evaluated, differing: Sequence[int]) -> tuple[Root, ...]:
    """Return where the results `differing` begin to differ: lines of the new function, then of the old one."""
    sides = [[*(one[-1] for one in side.arguments), *(row["v"][-1] for row in side.rows)] for side in (old, new)]
    names = name_values([*sides[0], *sides[1]])
    named = names[: len(sides[0])], names[len(sides[0]) :]
    found = [
        list(_frontier(side, mine[len(side.arguments) :], set(theirs), [side.results[n] for n in differing]))
        for side, mine, theirs in ((new, named[1], named[0]), (old, named[0], named[1]))
    ]
    kinds = [{(row["op"], row["type"]) for row in rows} for rows in found]
    both = kinds[0] & kinds[1]  # the same operation on both sides is less likely a mere rewrite
    roots = list[Root]()
    for is_new, rows in ((True, found[0]), (False, found[1])):
        for row in sorted(rows, key=lambda row: (row["op"], row["type"]) not in both):
            file, number, function, _ = row["at"]
            root = Root(row["op"], file, number, function, is_new)
            if file and all((root.file, root.number) != (one.file, one.number) for one in roots):
                roots.append(root)
    return tuple(roots[:MAX_ROOTS])


def _frontier(
    side: Evaluated, names: Sequence[str], known: set[str], ends: Sequence[Sequence[Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows before `ends` whose values the other function lacks, although it has all that they are made of."""
    found, seen, left = set[int](), set[int](), [n for end in ends for n in _rows_of(end)]
    while left:
        n = left.pop()
        if n in seen or names[n] in known:
            continue
        seen.add(n)
        parents = [parent for origin in side.rows[n]["from"] for parent in _rows_of(origin)]
        unknown = [parent for parent in parents if names[parent] not in known]
        left += unknown
        if not unknown:
            found.add(n)
    for n in sorted(found):
        yield side.rows[n]


def _rows_of(origin: Sequence[Any]) -> Iterator[int]:
    if origin[0] == "row":
        yield origin[1]
    elif origin[0] == "parts":
        for part in origin[1]:
            yield from _rows_of(part)
