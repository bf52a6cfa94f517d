"""Renders the index page of a store, and updates it while other processes may update it too.

A named comparison, such as `linen-vs-nnx`, is a file in configs/comparisons. A result is the outcome of one comparison
of one case (`IndexedComparison`). A pair (`Pair`) is a named comparison with both refs and a target: a column of the
matrix. A night is one run of `maxview nightly`; its cells are the cases of its named comparisons (`IndexedCell`).
"""

import json
import logging
import random
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from tasks.diff.metric_rows import NOT_JUDGED
from tasks.publish.content import verdict_words
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.content.verdict_words import WORST_FIRST, Outcome, first_clauses
from tasks.publish.site.index import (
    DATA,
    FIELDS,
    HISTORY,
    MARK,
    PAGE,
    PAIR,
    Change,
    IndexedCell,
    IndexedComparison,
    IndexedNight,
    Pair,
    StoreIndex,
    add_history,
    add_nights,
    gather_index,
    parse_index,
)
from tasks.resolve.plan_night import BISECTED, NightRecord
from tasks.store import Store, StoreError, write_atomically
from tasks.store.files import AlreadyThereError
from tasks.store.locks import hold
from tasks.store.mirror import out_option

# outcomes that the page counts, the worst first
SHOWN: tuple[Outcome, ...] = ("died", *(word for word in WORST_FIRST if word != NOT_JUDGED))
MAX_COLUMNS = 12  # largest number of pairs in the matrix: the pairs with the newest results
NEIGHBOURS = "cases.js"  # in the folder of each named comparison; the pages of its results load it
BROKEN = ("died", "failed", "regressed", "changed")  # outcomes of broken cells, the worst first
HEALTHY = ("same", "improved")  # outcomes that heal a broken cell
MAX_LISTED_RESULTS = 40  # latest results per case and pair in `cases.js`
LISTED = 40  # number of newest results that the list has without JavaScript
MAX_TREND_RESULTS = 14  # latest results of a case and pair in a trend
MIN_HALF_RANGE = 0.05  # the y axis of a trend covers at least the ratios 1 ± this, so that noise looks small
LOCK = ".index.lock"
ATTEMPTS = 20  # attempts to write the page
PAUSE_S = 0.2  # longest pause after the first conflict; random, so that two writers do not conflict repeatedly
MAX_WAIT_S = 120.0  # longest wait for the lock


def update_index(store: Store, change: Change) -> StoreIndex | None:
    """Apply the change to the index page and return the new index; None if the page is not maxview's.

    An index that is missing or unreadable is first rebuilt from the records. No concurrent change is lost: writers in
    a folder take a lock, and a page in a bucket is only replaced if it is still the version that was read. Raises
    StoreError.
    """
    place = store.files.url(PAGE)
    with _lock_index(store, place):
        for attempt in range(ATTEMPTS):
            entry = store.files.stat(PAGE)
            page = None
            with suppress(FileNotFoundError):  # removed since `stat`: then the write below fails and is repeated
                page = store.files.read(PAGE).decode("utf-8", "replace") if entry else None
            if page is not None and MARK not in page:
                logging.getLogger(__name__).warning("%s is not a page of maxview: left as it is", place)
                return None
            index = change((parse_index(page) if page is not None else None) or gather_index(store))
            text = render_index(index, store).encode()
            try:
                store.files.write(PAGE, text, create=entry is None, version=entry.version if entry else None)
            except AlreadyThereError:
                time.sleep(random.uniform(0, PAUSE_S * (attempt + 1)))
            else:
                return index
    raise StoreError(f"{place}: others change it again and again; try again")


def rebuild_index(store: Store) -> None:
    """Rewrite the index page, and `cases.js` of every named comparison, from the records in the store."""
    index = update_index(store, lambda _: gather_index(store))
    for comparison in {item.comparison for item in index.comparisons} if index else ():
        write_neighbours(store, index, comparison)


def publish_night(store: Store, record: NightRecord) -> None:
    """Add the night to the index page, and rewrite `cases.js` of each named comparison of the night."""
    index = update_index(store, add_nights([record]))
    for comparison in dict.fromkeys(cell.comparison for cell in record.plan.cells):
        write_neighbours(store, index, comparison)


def write_neighbours(store: Store, index: StoreIndex | None, comparison: str) -> None:
    """Write `cases.js` of a named comparison; do nothing if `index` is None.

    The file contains the latest results of each case and pair. A case in quarantine also has the reason, if the store's
    last night had the pair's target.
    """
    if index is None:
        return
    quarantined = {
        (cell.case, night.target): cell.quarantine
        for night in index.nights[:1]
        for cell in night.cells
        if cell.comparison == comparison
    }
    results: dict[tuple[str, ...], list[IndexedComparison]] = {}
    for item in index.comparisons:
        if item.comparison == comparison:
            results.setdefault((item.case, *item.pair), []).append(item)
    rows = [
        newest.model_dump(include={"case", "id", "target", "baseline", "candidate"})
        | {
            "outcome": newest.outcome,
            "quarantine": quarantined.get((newest.case, newest.target), ""),
            "nights": [
                (item.id, item.created[:10], item.outcome, verdict_words.OUTCOMES[item.outcome].sign)
                for item in (newest, *older)[:MAX_LISTED_RESULTS][::-1]
            ],
        }
        for _, (newest, *older) in sorted(results.items())
    ]
    text = f"maxviewCases({json.dumps(rows, separators=(',', ':'))});\n"
    store.files.write(f"comparisons/{comparison}/{NEIGHBOURS}", text.encode())


def write_history(store: Store, html: str) -> Path:
    """Write `history.html` beside the index page; add it to a writable store's index. Return the page's path."""
    page = write_atomically(store.path / HISTORY, html)
    if store.writable:
        store.push(page)
        update_index(store, add_history)
    return page


def link_home(store: Store, depth: int = 0) -> str:
    """Return the address of the index page, for a link on a page that is `depth` folders below the index page."""
    return "../" * depth + PAGE if store.mirror is None else store.link_to(store.path / PAGE)


@contextmanager
def _lock_index(store: Store, place: str) -> Iterator[None]:
    """Lock the index page of a folder against other writers. A bucket has no lock, because it checks versions."""
    if store.mirror is not None:
        yield
        return
    until = time.monotonic() + MAX_WAIT_S

    def wait(who: str) -> None:
        if time.monotonic() > until:
            raise StoreError(f"{place}: {who} has held {LOCK} for {MAX_WAIT_S:.0f} s; end it")
        time.sleep(random.uniform(0.01, 0.05))

    with hold(store.path / LOCK, wait):
        yield


def render_index(index: StoreIndex, store: Store) -> str:
    """Return the HTML of the index page, which contains the index as JSON."""

    def link(name: str) -> str:
        return quote(name) if store.mirror is None else store.link_to(store.path / name)

    cases: dict[Pair, set[str]] = {}
    for item in index.comparisons:
        cases.setdefault(item.pair, set()).add(item.case)
    shown = sorted(list(cases)[:MAX_COLUMNS], key=lambda pair: -len(cases[pair]))  # pairs with many cases first
    last = index.nights[0] if index.nights else None
    page = (
        _environment()
        .get_template("index.html.j2")
        .render(
            link=link,
            out=shlex.join(out_option(store.address)),
            index=index,
            pairs=shown,
            older_pairs=len(cases) - MAX_COLUMNS,
            cases=_matrix(index, set(shown)),
            newest=index.comparisons[:LISTED],
            fields=(*PAIR, *FIELDS),
            signs={word: verdict_words.OUTCOMES[word].sign for word in SHOWN},
            counts=[(word, sum(item.outcome == word for item in index.comparisons)) for word in SHOWN],
            last=last,
            states=find_states(index.nights) if last else None,
            tally=tally(last.cells) if last else [],
            quarantined={(cell.comparison, cell.case) for cell in last.cells if cell.quarantine} if last else set(),
            other_changes=_other_changes(last) if last else [],
            nights=[(night, *_night(night.cells)) for night in index.nights],
            history=HISTORY if index.history else "",
            mark=Markup(MARK),
            data=index.model_dump(mode="json"),
            home="",
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


# a result's index in StoreIndex.comparisons, the result, and its trend as points and in words
type MatrixEntry = tuple[int, IndexedComparison, str, str]


def _matrix(index: StoreIndex, pairs: set[Pair]) -> dict[str, dict[Pair, MatrixEntry]]:
    """Return case → pair → the newest result, with the trend of up to MAX_TREND_RESULTS results."""
    results: dict[str, dict[Pair, list[tuple[int, IndexedComparison]]]] = {}
    for place, item in enumerate(index.comparisons):
        if item.pair in pairs:
            results.setdefault(item.case, {}).setdefault(item.pair, []).append((place, item))
    return {
        case: {pair: _make_entry(items[:MAX_TREND_RESULTS]) for pair, items in results[case].items()}
        for case in sorted(results)
    }


def _make_entry(newest_first: list[tuple[int, IndexedComparison]]) -> MatrixEntry:
    ratios = [item.ratio for _, item in newest_first[::-1]]
    return *newest_first[0], draw_trend(ratios), describe_trend(ratios)


def draw_trend(ratios: list[float | None]) -> str:
    """Return the `points` of an SVG polyline of 64 × 16 px; up is slower. Empty with fewer than two known ratios."""
    known = [(place, ratio) for place, ratio in enumerate(ratios) if ratio is not None]
    if len(known) < 2:
        return ""
    half_range = max(MIN_HALF_RANGE, *(abs(ratio - 1) for _, ratio in known))
    step = 60 / (len(ratios) - 1)
    return " ".join(f"{2 + place * step:.1f},{8 - 6 * (ratio - 1) / half_range:.1f}" for place, ratio in known)


def describe_trend(ratios: list[float | None]) -> str:
    """Return a text with the first and the last known ratio as changes in percent; empty if no ratio is known."""
    known = [f"{100 * (ratio - 1):+.1f} %" for ratio in ratios if ratio is not None]
    return f"{known[0]} at first, {known[-1]} last, of {len(known)} comparisons" if known else ""


def _why(item: IndexedComparison) -> str:
    """Return the first clauses of the headline; if an arm died, those after the first colon: the cause of death."""
    told = item.headline.partition(": ")[2] if item.died else item.headline.removeprefix("not comparable: ")
    return first_clauses(told or item.headline)


def _other_changes(night: IndexedNight) -> list[str]:
    """Return the changes that are not about the result of a cell, such as the commit that a bisection found."""
    cells = tuple(f"{cell.comparison} {cell.case}" for cell in night.cells)
    return [change for change in night.changes if not change.startswith(cells) or BISECTED in change]


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


def _night(cells: tuple[IndexedCell, ...]) -> tuple[list[str], dict[str, dict[str, IndexedCell]]]:
    """Return the named comparisons of a night, and case → named comparison → cell."""
    comparisons = list(dict.fromkeys(cell.comparison for cell in cells))
    rows: dict[str, dict[str, IndexedCell]] = {}
    for cell in cells:
        rows.setdefault(cell.case, {})[cell.comparison] = cell
    return comparisons, rows
