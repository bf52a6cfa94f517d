"""Renders the index page of a store, and updates it while other processes may update it too.

A named comparison, such as `linen-vs-nnx`, is a file in configs/comparisons. A result is the outcome of one comparison
of one case (`IndexedComparison`). A pair (`Pair`) is a named comparison with both refs and a target. A night is one run
of `maxview nightly`; its cells are the cases of its named comparisons (`IndexedCell`).
"""

import logging
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from tasks.diff.judge.metric_rows import NOT_JUDGED
from tasks.publish.content import verdict_words
from tasks.publish.content.marks import KINDS
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.content.verdict_words import WORST_FIRST, Outcome, first_clauses
from tasks.publish.site.case_lines import CaseKey, list_lines, list_trees, nights_of_pairs
from tasks.publish.site.forest import draw_forest
from tasks.publish.site.index import (
    DATA,
    FIELDS,
    HISTORY,
    MARK,
    MAX_PAIRS,
    PAGE,
    IndexedCell,
    IndexedComparison,
    IndexedNight,
    Pair,
    StoreIndex,
    count,
    gather_index,
    in_order,
    index_comparison,
    parse_index,
    place_newest,
    place_nights,
)
from tasks.publish.site.index_files import (
    add_to_pair,
    lock_index,
    move_to_segments,
    replace_file,
    take_from_segments,
    write_pairs,
)
from tasks.records.compared_case import ComparisonRecord
from tasks.records.night import NightRecord
from tasks.store.atomic import write_atomically
from tasks.store.mirror import out_option
from tasks.store.store import Store

# outcomes that the page counts, the worst first
SHOWN: tuple[Outcome, ...] = ("died", *(word for word in WORST_FIRST if word != NOT_JUDGED))
BROKEN = ("died", "failed", "regressed", "changed")  # outcomes of broken cells, the worst first
HEALTHY = ("same", "improved")  # outcomes that heal a broken cell
LISTED = 40  # number of newest results that the list has without JavaScript
MAX_HEAT_ROWS = 40  # cases in a heat map; of more, it has only those that differed on a night


type Change = Callable[[StoreIndex, Store], StoreIndex]


def update_index(store: Store, change: Change) -> StoreIndex | None:
    """Apply the change to the index page and return the new index; None if the page is not maxview's.

    An index that is missing or unreadable is first rebuilt from the records, with the files of all pairs. `change` is
    called again if another writer was first, see `replace_file`. Raises StoreError.
    """
    index, before = None, None

    def make(page: str | None) -> str | None:
        nonlocal index, before
        if page is not None and MARK not in page:
            logging.getLogger(__name__).warning("%s is not a page of maxview: left as it is", store.files.url(PAGE))
            index = None
            return None
        before = parse_index(page) if page is not None else None
        index = change(before or gather_with_pairs(store), store)
        index = move_to_segments(store, index)
        return render_index(index, store)

    with lock_index(store):
        replace_file(store, PAGE, make)
    if index is not None and before is not None:
        for segment in {*before.segments} - {*index.segments}:
            store.files.delete(segment.name)
    return index


def rebuild_index(store: Store) -> None:
    """Rewrite the index page, its segments, and the file of each pair, from the records in the store."""
    update_index(store, lambda _, store: gather_with_pairs(store))


def gather_with_pairs(store: Store) -> StoreIndex:
    """Build the index from all records in the store, and write the file of every pair."""
    index = gather_index(store)
    write_pairs(store, index)
    return index


def add_comparison(record: ComparisonRecord, earlier: str = "") -> Change:
    """Return a change that adds the result of a comparison.

    earlier: the time of the same comparison if it was published before, else empty.
    """
    item = index_comparison(record)
    return add_results([item], {item.key: earlier} if earlier else {})


def add_results(results: Iterable[IndexedComparison], earlier: Mapping[tuple[str, str, str], str]) -> Change:
    """Return a change that adds results, or replaces them, in the index and in the files of their pairs.

    earlier: key of a result that the index may have already → the time with which it was added.
    """
    added = in_order(results)

    def change(index: StoreIndex, store: Store) -> StoreIndex:
        keys = {item.key for item in added}
        replaced = [item for item in index.comparisons if item.key in keys]
        sought = {key: at for key, at in earlier.items() if key not in {item.key for item in replaced}}
        index, taken = take_from_segments(store, index, sought)
        index = count(index, added, [*replaced, *taken])
        index = index.replace(comparisons=in_order([*index.comparisons, *added]))
        shown = set(index.pairs)
        for pair in dict.fromkeys(item.pair for item in added):
            own = [item for item in added if item.pair == pair]
            listed = add_to_pair(store, pair, own, index.nights)
            cases = {item.case for item in (own if pair in shown else listed)}
            index = place_newest(index, [item for item in reversed(listed) if item.case in cases])
        return index

    return change


def add_nights(records: Sequence[NightRecord]) -> Change:
    """Return a change that adds nights, and updates the quarantines in the files of the matrix's pairs."""

    def change(index: StoreIndex, store: Store) -> StoreIndex:
        index = place_nights(index, records)
        comparisons = {cell.comparison for record in records for cell in record.plan.cells}
        for pair in index.pairs:
            if pair.comparison in comparisons:
                add_to_pair(store, pair, (), index.nights)
        return index

    return change


def add_history(index: StoreIndex, store: Store) -> StoreIndex:
    """Mark `history.html` as existing. This is a `Change`."""
    return index.replace(history=True)


def add_invariants(page: str) -> Change:
    """Return a change that links the page of invariants with this path inside the store."""
    return lambda index, _: index.replace(invariants=page)


def publish_night(store: Store, record: NightRecord) -> None:
    """Add the night to the index page."""
    update_index(store, add_nights([record]))


def write_history(store: Store, html: str) -> Path:
    """Write `history.html` beside the index page; add it to a writable store's index. Return the page's path."""
    page = write_atomically(store.path / HISTORY, html)
    if store.writable:
        store.push(page)
        update_index(store, add_history)
    return page


def link_home(store: Store, depth: int = 0) -> str:
    """Return the address of the index page, for a link on a page that is `depth` folders below the index page."""
    return store.link_from_page(PAGE, depth)


def render_index(index: StoreIndex, store: Store) -> str:
    """Return the HTML of the index page, which contains the index as JSON."""
    lines, trees = list_lines(index), list_trees(index)
    in_lines = {
        (pair.comparison, case, pair.target) for pair, cases in nights_of_pairs(index).items() for case in cases
    }
    last = index.nights[0] if index.nights else None
    page = (
        _environment()
        .get_template("index.html.j2")
        .render(
            link=store.link_from_page,
            out=shlex.join(out_option(store.address)),
            index=index,
            pairs=lines,
            trees=trees,
            fresh=[line for some in lines.values() for line in some if line.before and not line.item.edited],
            before={line.item.key: line.before for some in lines.values() for line in some if line.before},
            kinds=KINDS,
            is_full=len(lines) == MAX_PAIRS,
            forest=draw_forest(index.matrix),
            newest=index.comparisons[:LISTED],
            fields=(*Pair._fields, *FIELDS),
            signs={word: verdict_words.OUTCOMES[word].sign for word in SHOWN},
            counts=[(word, index.counts.get(word, 0)) for word in SHOWN if word != "failed"],
            last=last,
            states=find_states(index.nights) if last else None,
            tally=tally(last.cells) if last else [],
            quarantined={(cell.comparison, cell.case) for cell in last.cells if cell.quarantine} if last else set(),
            other_changes=_other_changes(last) if last else [],
            nights=index.nights,
            heat=_heat_maps(index.nights, in_lines),
            history=store.link_from_page(HISTORY) if index.history else "",
            invariants=store.link_from_page(index.invariants) if index.invariants else "",
            mark=Markup(MARK),
            data=index.model_dump(mode="json"),
            home="",
            files=True,
            **load_assets("site.js", "index.js"),
        )
    )
    assert DATA.search(page), "the page would not be read again"
    return page


def render_not_found() -> str:
    """Return the HTML for addresses without a page (404)."""
    return _environment().get_template("not_found.html.j2").render(home="/index.html", **load_assets("site.js"))


@cache
def _environment() -> Environment:
    return make_environment(words=verdict_words, why=_why, format_moment=verdict_words.format_moment)


def _why(item: IndexedComparison) -> str:
    """Return the first clauses of the headline's reason; if an arm died, of the cause of death."""
    return first_clauses(item.headline[item.lead :] or item.headline)


def _other_changes(night: IndexedNight) -> list[str]:
    """Return lines about the changes that are not about the result of a cell, such as the commit of a bisection."""
    return [change.line for change in night.changes if change.kind != "outcome"]


def tally(cells: Sequence[IndexedCell]) -> list[tuple[Outcome, int, float, float]]:
    """Return (outcome, number of cells, x, width) per outcome that occurs; x and width in % of a bar of all cells.

    "failed" is first, then the outcomes follow in the order of SHOWN. The numbers do not include cells in quarantine,
    but the length of the bar does.
    """
    words = Counter(cell.outcome for cell in cells if not cell.quarantine)
    parts: list[tuple[Outcome, int, float, float]] = []
    for word in ("failed", *SHOWN):
        if count := words[word]:
            end = parts[-1][2] + parts[-1][3] if parts else 0.0
            parts.append((word, count, round(end, 2), round(100 * count / len(cells), 2)))
    return parts


def find_states(nights: Sequence[IndexedNight]) -> dict[str, list[IndexedCell]]:
    """Return lists of cells by state; the state of a cell follows from the last night and the night before it.

    The night before is the previous one in `nights` on the same target. Cells that are now in quarantine are only
    "quarantined". Other cells of the last night are "new" or "old" if they are broken (the worst first; "old": also
    broken before), "healed" if they were broken and are now same or improved, "unknown" if their outcome is unknown, or
    else in no list. "absent" are the cells of the night before that the last night lacks.
    """
    now = {(cell.comparison, cell.case): cell for cell in nights[0].cells}
    last = next((night.cells for night in nights[1:] if night.target == nights[0].target), ())
    before = {(cell.comparison, cell.case): cell for cell in last}
    was_bad = {key for key, cell in before.items() if cell.outcome in BROKEN}
    bad = {key: cell for key, cell in now.items() if cell.outcome in BROKEN and not cell.quarantine}
    sound = {key: cell for key, cell in now.items() if cell.outcome in HEALTHY and not cell.quarantine}
    worst = sorted(bad, key=lambda key: BROKEN.index(bad[key].outcome))
    return {
        "new": [bad[key] for key in worst if key not in was_bad],
        "old": [bad[key] for key in worst if key in was_bad],
        "absent": [cell for key, cell in before.items() if key not in now],
        "healed": [cell for key, cell in sound.items() if key in was_bad],
        "unknown": [cell for cell in now.values() if cell.outcome == "unknown" and not cell.quarantine],
        "quarantined": [cell for cell in now.values() if cell.quarantine],
    }


# (named comparison, case) → night → cell
type HeatMap = dict[tuple[str, str], dict[str, IndexedCell]]


def _heat_maps(
    nights: Sequence[IndexedNight], in_lines: Set[CaseKey]
) -> list[tuple[str, list[IndexedNight], HeatMap, int]]:
    """Return (target, its nights, the newest first, their cells) per target, that of the newest night first.

    in_lines: cases whose nights stand in their lines of the front page; they are left out. Of more than MAX_HEAT_ROWS
    cases, those that were the same on every night are left out; the last item counts them.
    """
    maps: list[tuple[str, list[IndexedNight], HeatMap, int]] = []
    for target in dict.fromkeys(night.target for night in nights):
        own = [night for night in nights if night.target == target]
        rows: HeatMap = {}
        for night in own:
            for cell in night.cells:
                if (cell.comparison, cell.case, target) not in in_lines:
                    rows.setdefault((cell.comparison, cell.case), {})[night.id] = cell
        if not rows:
            continue
        told = {key for key, cells in rows.items() if any(c.outcome != "same" or c.quarantine for c in cells.values())}
        shown = {key: cells for key, cells in rows.items() if key in told or len(rows) <= MAX_HEAT_ROWS}
        maps.append((target, own, shown, len(rows) - len(shown)))
    return maps
