"""Turns what is published into the index of a store: the newest comparison of every case, the last nights, the history.

The index page carries its own data, so one file is both: replaced only over the version that was read, it never loses
what another writer put in, and adding to it takes no look at the thousands of folders beside it.
"""

import re
from collections.abc import Callable, Iterable
from itertools import batched
from typing import Literal

from pydantic import ConfigDict, ValidationError

from configs.schema import Frozen
from tasks.publish.nightly import night_headline
from tasks.publish.text import shorten
from tasks.records import ComparisonRecord, Verdict
from tasks.resolve.night import NightRecord, read_records
from tasks.store import Store, StoreError

PAGE = "index.html"
HISTORY = "history.html"
MARK = '<meta name="generator" content="maxview">'
DATA = re.compile(r'<script type="application/json" id="data">([^<]*)</script>')
NIGHTS = 5  # whose matrices are shown
HEADLINE = 300  # characters
AT_ONCE = 100  # records that are held while the index is made anew


class IndexedComparison(Frozen):
    """What the index tells of a comparison; out of its record, whose other fields are left out."""

    model_config = ConfigDict(extra="ignore")

    comparison: str
    case: str
    id: str
    target: str
    created: str  # ISO 8601
    verdict: Verdict
    headline: str

    @property
    def page(self) -> str:
        """The name of its page in the store."""
        return f"comparisons/{self.comparison}/{self.case}/{self.id}/index.html"


class IndexedCell(Frozen):
    """One cell of a night's matrix."""

    comparison: str
    case: str
    outcome: Verdict | Literal["failed"]
    quarantine: bool = False
    page: str = ""  # its name in the store


class IndexedNight(Frozen):
    """What the index tells of a night."""

    id: str
    target: str
    ended: str  # ISO 8601
    headline: str
    cells: tuple[IndexedCell, ...]


class StoreIndex(Frozen):
    """Everything on the index page."""

    comparisons: tuple[IndexedComparison, ...] = ()  # one of each comparison, case and target, by their names
    nights: tuple[IndexedNight, ...] = ()  # the last one first
    history: bool = False  # whether there is a page of it
    unread: tuple[str, ...] = ()  # what could not be read when the index was made anew


type Change = Callable[[StoreIndex], StoreIndex]


def add_comparison(record: ComparisonRecord) -> Change:
    """The comparison takes the place of an older one of its case on its target."""
    new = IndexedComparison.model_validate(record.model_dump(include=set(IndexedComparison.model_fields)))
    return lambda index: index.model_copy(update={"comparisons": newest([*index.comparisons, new])})


def newest(found: Iterable[IndexedComparison]) -> tuple[IndexedComparison, ...]:
    """The comparison of each name, case and target that was made last, by these."""
    kept: dict[tuple[str, str, str], IndexedComparison] = {}
    for item in found:
        key = item.comparison, item.case, item.target
        if key not in kept or item.created >= kept[key].created:
            kept[key] = item.model_copy(update={"headline": shorten(item.headline, HEADLINE)})
    return tuple(kept[key] for key in sorted(kept))


def add_nights(records: Iterable[NightRecord]) -> Change:
    """The nights are among the last ones, each once."""
    new = [_indexed(record) for record in records]

    def change(index: StoreIndex) -> StoreIndex:
        nights = {night.id: night for night in (*index.nights, *new)}.values()
        last = sorted(nights, key=lambda night: night.ended, reverse=True)[:NIGHTS]
        return index.model_copy(update={"nights": tuple(last)})

    return change


def _indexed(record: NightRecord) -> IndexedNight:
    return IndexedNight(
        id=record.plan.id,
        target=record.plan.target,
        ended=record.ended,
        headline=night_headline(record),
        cells=tuple(
            IndexedCell(
                comparison=result.cell.comparison,
                case=result.cell.case,
                outcome=result.outcome,
                quarantine=bool(result.cell.quarantine),
                page=_name_of(result.page),
            )
            for result in record.results
        ),
    )


def _name_of(address: str) -> str:
    """The name of a comparison's page in the store, wherever the store was when its address was written."""
    parts = address.split("/")[-5:]
    return "/".join(parts) if len(parts) == 5 and parts[0] == "comparisons" else ""


def add_history(index: StoreIndex) -> StoreIndex:
    """There is a page of the history."""
    return index.model_copy(update={"history": True})


def is_ours(page: str) -> bool:
    """Whether a page was written by maxview."""
    return MARK in page


def parse_index(page: str) -> StoreIndex | None:
    """The data that an index page carries; None if it carries none, or that of another version."""
    found = DATA.search(page)
    try:
        return StoreIndex.model_validate_json(found[1]) if found else None
    except ValidationError:
        return None


def gather_index(store: Store) -> StoreIndex:
    """The index out of the folders of the store alone; what cannot be read is named in it."""
    found: list[IndexedComparison] = []
    unread: list[str] = []
    names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/comparison.json")]
    for some in batched(names, AT_ONCE):
        for name, data in store.files.read_many(list(some)).items():
            try:
                found.append(IndexedComparison.model_validate_json(data))
            except ValidationError:
                unread.append(name)
        found = list(newest(found))
    index = StoreIndex(comparisons=newest(found), history=store.files.stat(HISTORY) is not None)
    try:
        index = add_nights(read_records(store))(index)
    except StoreError as error:
        unread.append(str(error))
    return index.model_copy(update={"unread": tuple(unread)})
