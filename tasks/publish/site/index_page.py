"""Turns the index of a store into its page, and keeps the page up to date beside other writers."""

import json
import logging
import random
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from configs.schema import Frozen
from tasks.diff.metric_row import NOT_JUDGED
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
    add_nights,
    gather_index,
    is_ours,
    parse_index,
)
from tasks.resolve.plan_night import BISECTED, NightRecord
from tasks.store import Store, StoreError
from tasks.store.files import AlreadyThereError
from tasks.store.locks import hold
from tasks.store.mirror import out_option

SHOWN: tuple[Outcome, ...] = ("died", *(word for word in WORST_FIRST if word != NOT_JUDGED))
PAIRS = 12  # columns of the matrix: what was compared last
NEIGHBOURS = "cases.js"
BROKEN = ("died", "failed", "regressed", "changed")  # the worst first
SHOWN_NIGHTS = 40  # of a case, on its pages
LISTED = 40  # comparisons that need no script to be seen
TREND_NIGHTS = 14
LEAST_REACH = 0.05  # of a trend, relative: less would draw noise as mountains
LOCK = ".index.lock"
ATTEMPTS = 20
PAUSE_S = 0.2  # at first, and at random: writers that met once should not meet again
LONGEST_WAIT_S = 120.0


def update_index(store: Store, change: Change) -> StoreIndex | None:
    """Write the index page with the change in it. A page that is missing or damaged is first made out of the folders.
    Returns what the page tells now; None where it is not ours.

    Two writers lose nothing of each other's: on this machine one waits for the other, in a bucket a page is only
    replaced over the version that was read. Raises StoreError.
    """
    with _alone(store):
        for attempt in range(ATTEMPTS):
            entry = store.files.stat(PAGE)
            page = _read(store) if entry else None
            if page is not None and not is_ours(page):
                logging.getLogger(__name__).warning("%s is none of maxview's pages: left as it is", _place(store))
                return None
            index = (parse_index(page) if page is not None else None) or gather_index(store)
            index = change(index)
            text = render_index(index, store).encode()
            try:
                store.files.write(PAGE, text, create=entry is None, version=entry.version if entry else None)
            except AlreadyThereError:
                time.sleep(random.uniform(0, PAUSE_S * (attempt + 1)))
            else:
                return index
    raise StoreError(f"{_place(store)}: is changed again and again by others; try again")


def rebuild_index(store: Store) -> None:
    """Write the index page anew out of the folders of the store alone."""
    index = update_index(store, lambda _: gather_index(store))
    for comparison in {item.comparison for item in index.comparisons} if index else ():
        write_neighbours(store, index, comparison)


def publish_night(store: Store, record: NightRecord) -> None:
    """Put the night on the index page, and its quarantined cases on the pages of their comparisons."""
    index = update_index(store, add_nights([record]))
    for comparison in dict.fromkeys(cell.comparison for cell in record.plan.cells):
        write_neighbours(store, index, comparison)


def write_neighbours(store: Store, index: StoreIndex | None, comparison: str) -> None:
    """Write what every page of the comparison loads to lead to the page of the next case: `cases.js` beside them.

    It also has the reason for which the last night keeps a case in quarantine."""
    if index is None:
        return
    quarantined = {
        (cell.case, night.target): cell.quarantine
        for night in index.nights[:1]
        for cell in night.cells
        if cell.comparison == comparison
    }
    found: dict[tuple[str, ...], list[IndexedComparison]] = {}
    for item in index.comparisons:
        if item.comparison == comparison:
            found.setdefault((item.case, *item.pair), []).append(item)
    shown = {"case", "id", "target", "baseline", "candidate"}
    rows = [
        items[0].model_dump(include=shown)
        | {
            "outcome": items[0].outcome,
            "quarantine": quarantined.get((items[0].case, items[0].target), ""),
            "nights": [
                (item.id, item.created[:10], item.outcome, verdict_words.OUTCOMES[item.outcome].sign)
                for item in items[:SHOWN_NIGHTS][::-1]
            ],
        }
        for _, items in sorted(found.items())
    ]
    text = f"maxviewCases({json.dumps(rows, separators=(',', ':'))});\n"
    store.files.write(f"comparisons/{comparison}/{NEIGHBOURS}", text.encode())


def link_home(store: Store) -> str:
    """What leads to the index from a page that is not beside it."""
    return store.link_to(store.path / PAGE)


def _place(store: Store) -> str:
    return store.files.url(PAGE)


def _read(store: Store) -> str | None:
    try:
        return store.files.read(PAGE).decode("utf-8", "replace")
    except FileNotFoundError:  # removed meanwhile: then writing over it fails, too
        return None


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Of the writers of this machine the only one; a bucket has its preconditions."""
    if store.mirror is not None:
        yield
        return
    until = time.monotonic() + LONGEST_WAIT_S

    def wait(who: str) -> None:
        if time.monotonic() > until:
            raise StoreError(f"{_place(store)}: {who} has not let go of {LOCK} for {LONGEST_WAIT_S:.0f} s; end it")
        time.sleep(random.uniform(0.01, 0.05))

    with hold(store.path / LOCK, wait):
        yield


def render_index(index: StoreIndex, store: Store) -> str:
    """The page, with the index in it as data."""

    def link(name: str) -> str:
        return quote(name) if store.mirror is None else store.link_to(store.path / name)

    cases: dict[Pair, set[str]] = {}
    for item in index.comparisons:
        cases.setdefault(item.pair, set()).add(item.case)
    pairs = list(cases)
    shown = sorted(pairs[:PAIRS], key=lambda pair: -len(cases[pair]))  # a pair of one case is not much of a matrix
    page = (
        _environment()
        .get_template("index.html.j2")
        .render(
            link=link,
            out=shlex.join(out_option(store.address)),
            index=index,
            pairs=shown,
            older_pairs=len(pairs) - PAIRS,
            cases=_matrix(index, set(shown)),
            newest=index.comparisons[:LISTED],
            fields=(*PAIR, *FIELDS),
            signs={word: verdict_words.OUTCOMES[word].sign for word in SHOWN},
            counts=[(word, sum(item.outcome == word for item in index.comparisons)) for word in SHOWN],
            states=find_states(index.nights) if index.nights else None,
            tally=tally(index.nights[0].cells) if index.nights else [],
            quarantined={
                (one.comparison, one.case) for night in index.nights[:1] for one in night.cells if one.quarantine
            },
            other_changes=_other_changes(index.nights[0]) if index.nights else [],
            nights=[(night, *_night(night.cells)) for night in index.nights],
            history=HISTORY if index.history else "",
            mark=Markup(MARK),
            data=index.model_dump(mode="json"),
            **load_assets("site.js", "index.js"),
        )
    )
    assert DATA.search(page), "the page would not be read again"
    return page


def render_not_found() -> str:
    """The page for an address of the site that has none."""
    return _environment().get_template("not_found.html.j2").render(**load_assets())


@cache
def _environment() -> Environment:
    return make_environment(words=verdict_words, why=_why, format_moment=verdict_words.format_moment)


type Cell = tuple[IndexedComparison, str, str]  # the newest comparison, and the trend up to it, as points and in words


def _matrix(index: StoreIndex, pairs: set[Pair]) -> dict[str, dict[Pair, Cell]]:
    """Of every case its newest comparison of each pair, with the trend up to it."""
    found: dict[str, dict[Pair, list[IndexedComparison]]] = {}
    for item in index.comparisons:
        if item.pair in pairs:
            found.setdefault(item.case, {}).setdefault(item.pair, []).append(item)
    return {case: {pair: _cell(items[:TREND_NIGHTS]) for pair, items in found[case].items()} for case in sorted(found)}


def _cell(newest_first: list[IndexedComparison]) -> Cell:
    ratios = [item.ratio for item in newest_first[::-1]]
    return newest_first[0], draw_trend(ratios), tell_trend(ratios)


def draw_trend(ratios: list[float | None]) -> str:
    """The points of a line, in an image of 64 × 16 px: up is slower, and half its height is at least 5 %."""
    known = [(place, ratio) for place, ratio in enumerate(ratios) if ratio is not None]
    if len(known) < 2:
        return ""
    reach = max(LEAST_REACH, *(abs(ratio - 1) for _, ratio in known))
    step = 60 / (len(ratios) - 1)
    return " ".join(f"{2 + place * step:.1f},{8 - 6 * (ratio - 1) / reach:.1f}" for place, ratio in known)


def tell_trend(ratios: list[float | None]) -> str:
    """What the line shows: its first and its last value, as a change in percent."""
    known = [f"{100 * (ratio - 1):+.1f} %" for ratio in ratios if ratio is not None]
    return f"{known[0]} at first, {known[-1]} last, of {len(known)} comparisons" if known else ""


def _why(item: IndexedComparison) -> str:
    """Return the first whole clauses of a headline, of a death the cause."""
    told = item.headline.partition(": ")[2] if item.died else item.headline.removeprefix("not comparable: ")
    return first_clauses(told or item.headline)


def _other_changes(night: IndexedNight) -> list[str]:
    """Return the changes that are of no cell, such as the culprit of a bisection."""
    cells = tuple(f"{cell.comparison} {cell.case}" for cell in night.cells)
    return [change for change in night.changes if not change.startswith(cells) or BISECTED in change]


def tally(cells: Sequence[IndexedCell]) -> list[tuple[Outcome, int, float, float]]:
    """Return how many cells have each word, the worst first, and their place and width in a bar of all cells, in %.

    Leaves out the cells in quarantine.
    """
    words = Counter(cell.outcome for cell in cells if not cell.quarantine)
    found: list[tuple[Outcome, int, float, float]] = []
    for word in ("failed", *SHOWN):
        if count := words[word]:
            end = found[-1][2] + found[-1][3] if found else 0.0
            found.append((word, count, round(end, 2), round(100 * count / len(cells), 2)))
    return found


class NightStates(Frozen):
    """The cells of the last night by what a reader does with them."""

    new: tuple[IndexedCell, ...]  # broken, and were not the night before on the same target
    old: tuple[IndexedCell, ...]  # still broken
    absent: tuple[IndexedCell, ...]  # of the night before; not in this one
    healed: tuple[IndexedCell, ...]
    unknown: tuple[IndexedCell, ...]
    quarantined: tuple[IndexedCell, ...]


def find_states(nights: Sequence[IndexedNight]) -> NightStates:
    """Return the last night's cells by what became of them since the night before on the same target."""
    now = {(cell.comparison, cell.case): cell for cell in nights[0].cells}
    last = next((night.cells for night in nights[1:] if night.target == nights[0].target), ())
    before = {(cell.comparison, cell.case): cell for cell in last}
    was_bad = {key for key, cell in before.items() if cell.outcome in BROKEN}
    bad = {key: cell for key, cell in now.items() if cell.outcome in BROKEN and not cell.quarantine}
    worst = sorted(bad, key=lambda key: BROKEN.index(bad[key].outcome))
    return NightStates(
        new=tuple(bad[key] for key in worst if key not in was_bad),
        old=tuple(bad[key] for key in worst if key in was_bad),
        absent=tuple(cell for key, cell in before.items() if key not in now),
        healed=tuple(cell for key, cell in now.items() if key in was_bad and cell.outcome not in BROKEN),
        unknown=tuple(cell for cell in now.values() if cell.outcome == "unknown" and not cell.quarantine),
        quarantined=tuple(cell for cell in now.values() if cell.quarantine),
    )


def _night(cells: tuple[IndexedCell, ...]) -> tuple[list[str], dict[str, dict[str, IndexedCell]]]:
    """The comparisons of a night, and of each case its cell of each comparison."""
    comparisons = list(dict.fromkeys(cell.comparison for cell in cells))
    rows: dict[str, dict[str, IndexedCell]] = {}
    for cell in cells:
        rows.setdefault(cell.case, {})[cell.comparison] = cell
    return comparisons, rows
