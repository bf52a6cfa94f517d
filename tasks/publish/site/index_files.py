"""Reads and writes the files beside the index page: segments with older results, and the results of each pair.

Both are scripts that call a function with JSON, because a page cannot read other files of a local folder. `Pair` and
`Segment` are defined in `index`.
"""

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import batched
from typing import Any

from tasks.publish.content.verdict_words import OUTCOMES
from tasks.publish.site.index import (
    FIELDS,
    OPEN,
    PAGE,
    SEGMENT,
    IndexedComparison,
    IndexedNight,
    PackedResults,
    Pair,
    Segment,
    StoreIndex,
    in_order,
    parse_index,
)
from tasks.store.atomic import StoreError
from tasks.store.files import AlreadyThereError
from tasks.store.store import Store

MAX_LISTED_RESULTS = 40  # latest results of each case in the file of a pair
LOCK = ".index.lock"
ATTEMPTS = 20  # attempts to write a file that others replace, or to read one that they remove
PAUSE_S = 0.2  # longest pause after the first conflict; random, so that two writers do not conflict repeatedly
MAX_WAIT_S = 120.0  # longest wait for the lock


def replace_file(store: Store, name: str, make: Callable[[str | None], str | None]) -> None:
    """Replace a file by `make` of its text, which is None if there is no file; None from `make` leaves it as it is.

    No concurrent change is lost: `make` is called again if the file changed meanwhile. In a folder, the caller holds
    the lock (`lock_index`). Raises StoreError.
    """
    for attempt in range(ATTEMPTS):
        before = store.files.read_version(name)
        text = make(None if before is None else before[0].decode("utf-8", "replace"))
        if text is None:
            return
        try:
            store.files.write(name, text.encode(), create=before is None, version=before[1] if before else None)
        except AlreadyThereError:
            time.sleep(random.uniform(0, PAUSE_S * (attempt + 1)))
        else:
            return
    raise StoreError(f"{store.files.url(name)}: others change it again and again; try again")


@contextmanager
def lock_index(store: Store) -> Iterator[None]:
    """Lock the index of a folder against other writers. A bucket has no lock, because it checks versions."""
    until = time.monotonic() + MAX_WAIT_S

    def wait(who: str) -> None:
        if time.monotonic() > until:
            raise StoreError(f"{store.files.url(PAGE)}: {who} has held {LOCK} for {MAX_WAIT_S:.0f} s; end it")
        time.sleep(random.uniform(0.01, 0.05))

    with store.lock(LOCK, wait):
        yield


def move_to_segments(store: Store, index: StoreIndex) -> StoreIndex:
    """Return the index with all but the OPEN newest results in segments, if at least SEGMENT would move."""
    if len(index.comparisons) < OPEN + SEGMENT:
        return index
    moved = [write_segment(store, results) for results in batched(index.comparisons[OPEN:], SEGMENT)]
    return _with_segments(index, moved).replace(comparisons=index.comparisons[:OPEN])


def write_segment(store: Store, results: Sequence[IndexedComparison]) -> Segment:
    """Write a segment, whose name depends on its content."""
    text = PackedResults(comparisons=in_order(results)).model_dump_json()
    dates = [item.created[:10] for item in results]
    segment = Segment(hashlib.sha256(text.encode()).hexdigest()[:12], len(results), min(dates), max(dates))
    store.files.write(segment.name, f"maxviewSegment({text});\n".encode())
    return segment


def take_from_segments(
    store: Store, index: StoreIndex, times: Mapping[tuple[str, str, str], str]
) -> tuple[StoreIndex, list[IndexedComparison]]:
    """Return the index without some results of its segments, and these results.

    times: key of a result → the time with which it may be in a segment.
    """
    days = {created[:10] for created in times.values()}
    own = [segment for segment in index.segments if any(segment.first <= day <= segment.last for day in days)]
    taken: list[IndexedComparison] = []
    for segment, results in read_segments(store, own).items():
        if hit := [item for item in results if item.key in times]:
            taken += hit
            kept = [item for item in results if item.key not in times]
            left = [one for one in index.segments if one != segment]
            index = _with_segments(index.replace(segments=tuple(left)), [write_segment(store, kept)] if kept else [])
    return index, taken


def _with_segments(index: StoreIndex, more: Iterable[Segment]) -> StoreIndex:
    ordered = sorted({*index.segments, *more}, key=lambda segment: (segment.last, segment.digest), reverse=True)
    return index.replace(segments=tuple(ordered))


def read_segments(store: Store, segments: Sequence[Segment]) -> dict[Segment, tuple[IndexedComparison, ...]]:
    """Return the results of each segment. Raises StoreError for a missing or damaged segment."""
    data = store.files.read_many([segment.name for segment in segments])
    found = {}
    for segment in segments:
        try:
            found[segment] = PackedResults.model_validate(_argument(data[segment.name])).comparisons
        except (KeyError, ValueError) as error:
            raise StoreError(
                f"{store.files.url(segment.name)}: is missing or damaged; type: maxview history --rebuild"
            ) from error
    return found


def read_results(store: Store) -> list[IndexedComparison]:
    """Return all results of the index, in no order; none without an index. Raises StoreError."""
    for attempt in range(ATTEMPTS):
        page = store.files.read_version(PAGE)
        index = parse_index(page[0].decode("utf-8", "replace")) if page else None
        if index is None:
            return []
        try:
            older = read_segments(store, index.segments)
        except StoreError:  # a writer may have replaced the segment meanwhile
            if attempt == ATTEMPTS - 1 or store.files.read_version(PAGE) == page:
                raise
        else:
            return [*index.comparisons, *(item for results in older.values() for item in results)]
    raise AssertionError("the last attempt returns or raises")


def pair_file(pair: Pair) -> str:
    """Return the name of a pair's file in the folder of its named comparison."""
    return f"cases-{hashlib.sha256('\0'.join(pair).encode()).hexdigest()[:10]}.js"


def add_to_pair(
    store: Store, pair: Pair, added: Iterable[IndexedComparison], nights: Sequence[IndexedNight]
) -> tuple[IndexedComparison, ...]:
    """Add results to the file of their pair; return its results, newest first.

    The file lists up to MAX_LISTED_RESULTS results of each case, of which only the newest has a headline, and the cases
    in quarantine, if the store's last night has the pair's target. The pages of the pair load it.
    """
    found: tuple[IndexedComparison, ...] = ()

    def make(before: str | None) -> str:
        nonlocal found
        found = _newest_of_each_case([*_parse_pair(before), *added])
        return _render_pair(found, pair, nights)

    replace_file(store, f"comparisons/{pair.comparison}/{pair_file(pair)}", make)
    return found


def write_pairs(store: Store, index: StoreIndex) -> None:
    """Write the file of every pair of an index that has no segments."""
    by_pair: dict[Pair, list[IndexedComparison]] = {}
    for item in index.comparisons:
        by_pair.setdefault(item.pair, []).append(item)
    for pair, results in by_pair.items():
        text = _render_pair(_newest_of_each_case(results), pair, index.nights)
        store.files.write(f"comparisons/{pair.comparison}/{pair_file(pair)}", text.encode())


def _parse_pair(text: str | None) -> tuple[IndexedComparison, ...]:
    """Return the results in the text of a pair's file; none if it is missing, damaged, or of another version."""
    try:
        return PackedResults.model_validate(_argument(text.encode())).comparisons if text else ()
    except (ValueError, KeyError):
        return ()


def _render_pair(results: Sequence[IndexedComparison], pair: Pair, nights: Sequence[IndexedNight]) -> str:
    quarantined = {
        cell.case: cell.quarantine
        for night in nights[:1]
        if night.target == pair.target
        for cell in night.cells
        if cell.comparison == pair.comparison and cell.quarantine
    }
    value = {
        **PackedResults(comparisons=tuple(results)).model_dump(mode="json"),
        "fields": (*Pair._fields, *FIELDS),
        "signs": {outcome: OUTCOMES[outcome].sign for outcome in sorted({item.outcome for item in results})},
        "quarantine": quarantined,
    }
    return f"maxviewCases({json.dumps(value, separators=(',', ':'))});\n"


def _newest_of_each_case(results: Iterable[IndexedComparison]) -> tuple[IndexedComparison, ...]:
    by_case: dict[str, list[IndexedComparison]] = {}
    for item in in_order(results):
        by_case.setdefault(item.case, []).append(item)
    kept: list[IndexedComparison] = []
    for newest, *older in by_case.values():
        kept += [newest, *(item.replace(headline="") for item in older[: MAX_LISTED_RESULTS - 1])]
    return in_order(kept)


def _argument(script: bytes) -> Any:
    """Return the last argument of the call that a script consists of; of a pair's file, only the results."""
    text = script.decode()
    value = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return {"comparisons": value["comparisons"]}
