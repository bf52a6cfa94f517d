"""Chooses the lines of the front page: one per case, with its marks and its last nights, the worst first.

The terms are those of `index`: a pair is a named comparison with both refs and a target, a cell is a case in a night.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tasks.publish.content.marks import KINDS, NONE, WORDS
from tasks.publish.content.verdict_words import WORST_FIRST
from tasks.publish.site.index import IndexedCell, IndexedComparison, IndexedNight, Outcome, Pair, StoreIndex
from tasks.records.compared_case import Verdict

SHOWN_NIGHTS = 7  # last nights of a line
AT_FIRST = 24  # lines that a phone shows before a button is pressed
TREES = 8  # lines of the working tree above all others
ORDER: tuple[Outcome, ...] = ("died", *WORST_FIRST)

type CaseKey = tuple[str, str, str]  # named comparison, case, target


class NightOfCase(NamedTuple):
    """A case in one night."""

    day: str  # 11-21
    cell: IndexedCell | None  # None: it did not run in that night


class CaseLine(NamedTuple):
    """The newest result of a case of a pair."""

    item: IndexedComparison
    place: int  # in the index's matrix
    marks: tuple[tuple[str, Verdict | None], ...]  # kind of evidence, verdict; None: was not looked at
    nights: tuple[NightOfCase, ...]  # the last one at the end; empty if the case is in no night
    before: Outcome | None  # of the comparison of this case and pair before, if it differs
    is_later: bool  # whether more than AT_FIRST lines are above it


def list_lines(index: StoreIndex) -> dict[Pair, list[CaseLine]]:
    """Return the lines of each pair: pairs with a working tree first, then those with the worst outcome."""
    nights = nights_of_pairs(index)
    before = _outcomes_before(index)
    places = {item.key: place for place, item in enumerate(index.matrix)}
    groups: dict[Pair, list[IndexedComparison]] = {}
    for item in index.matrix:
        groups.setdefault(item.pair, []).append(item)
    own = {pair: sorted(items, key=lambda item: (_rank(item), item.case)) for pair, items in groups.items()}
    order = sorted(own, key=lambda pair: (not own[pair][0].edited, _rank(own[pair][0]), -len(own[pair])))
    lines: dict[Pair, list[CaseLine]] = {}
    count = 0
    for pair in order:
        for item in own[pair]:
            more = nights.get(pair, {}).get(item.case, ())
            changed = before.get(item.key)
            line = CaseLine(item, places[item.key], read_marks(item), tuple(more), changed, count >= AT_FIRST)
            lines.setdefault(pair, []).append(line)
            count += 1
    return lines


def list_trees(index: StoreIndex) -> list[IndexedComparison]:
    """Return the newest result of each case of a working tree, the worst first, at most TREES."""
    newest: dict[tuple[str, str], IndexedComparison] = {}
    for item in index.matrix:
        before = newest.get((item.comparison, item.case))
        if item.edited and (before is None or before.created < item.created):
            newest[item.comparison, item.case] = item
    return sorted(newest.values(), key=lambda item: (_rank(item), item.case))[:TREES]


def read_marks(item: IndexedComparison) -> tuple[tuple[str, Verdict | None], ...]:
    """Return (kind of evidence, verdict or None) for each of KINDS."""
    letters = item.marks.ljust(len(KINDS), NONE)
    return tuple((kind, WORDS.get(letter)) for kind, letter in zip(KINDS, letters, strict=False))


def nights_of_pairs(index: StoreIndex) -> dict[Pair, dict[str, list[NightOfCase]]]:
    """Return the last nights of each case of the pairs that nights compared.

    A cell belongs to the pair of the result to which it leads; older nights of the case keep no address.
    """
    pairs = {item.page: item.pair for item in (*index.comparisons, *index.matrix)}
    found: dict[Pair, dict[str, list[NightOfCase]]] = {}
    for (comparison, case, target), pair in _pairs_of_cases(index.nights, pairs).items():
        own = [night for night in index.nights if night.target == target][:SHOWN_NIGHTS]
        cells = [NightOfCase(night.ended[5:10], _find(night.cells, comparison, case)) for night in reversed(own)]
        found.setdefault(pair, {})[case] = cells
    return found


def _outcomes_before(index: StoreIndex) -> dict[tuple[str, str, str], Outcome]:
    """Return key of a result in the matrix → the outcome of the result before, if it is another and in no segment."""
    found: dict[tuple[str, str, str], Outcome] = {}
    newest = {(item.pair, item.case): item for item in index.matrix}
    for item in index.comparisons:  # the newest first
        last = newest.get((item.pair, item.case))
        if last is not None and item.created < last.created:
            del newest[item.pair, item.case]
            if item.outcome != last.outcome:
                found[last.key] = item.outcome
    return found


def _pairs_of_cases(nights: Sequence[IndexedNight], pairs: dict[str, Pair]) -> dict[CaseKey, Pair]:
    found: dict[CaseKey, Pair] = {}
    for night in nights:  # the newest first
        for cell in night.cells:
            if cell.page in pairs:
                found.setdefault((cell.comparison, cell.case, night.target), pairs[cell.page])
    return found


def _find(cells: Sequence[IndexedCell], comparison: str, case: str) -> IndexedCell | None:
    return next((cell for cell in cells if (cell.comparison, cell.case) == (comparison, case)), None)


def _rank(item: IndexedComparison) -> int:
    return ORDER.index(item.outcome)
