"""Builds the index of a store: the results of all comparisons, the last nights, and whether there is a history page.

A named comparison, such as `linen-vs-nnx`, is a file in configs/comparisons; a result is the outcome of one comparison
of one case. A night is one run of `maxview nightly`; its cells are the cases of its named comparisons.

The index page contains the index as JSON. Adding a result changes this JSON and reads none of the thousands of folders
with results.
"""

import re
import textwrap
from collections.abc import Callable, Iterable
from itertools import batched
from typing import Any, Literal

from pydantic import ValidationError, field_serializer, field_validator

from configs.schema import Frozen
from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.markdown.night import night_headline
from tasks.records import ComparisonRecord, Verdict
from tasks.records.text import shorten, visible
from tasks.resolve.plan_night import NightRecord, read_records
from tasks.store import Store, StoreError

PAGE = "index.html"
HISTORY = "history.html"
MARK = '<meta name="generator" content="maxview">'  # pages without it are not maxview's and are not replaced
DATA = re.compile(r'<script type="application/json" id="data">([^<]*)</script>')
NIGHTS = 5  # number of the latest nights that the index keeps
MAX_HEADLINE_LENGTH = 120  # characters of a headline or of a quarantine's reason
MAX_NIGHT_HEADLINE = 300  # characters of a headline in the cell of a night
TREND = STEP_TIME.name  # the metric whose ratio candidate / baseline is drawn as a trend
AT_ONCE = 100  # records in memory at once while the index is rebuilt


type Pair = tuple[str, str, str, str]  # named comparison, baseline, candidate, target


class IndexedComparison(Frozen):
    """A result in the index: one comparison of one case."""

    comparison: str  # name of the comparison
    case: str
    id: str
    target: str
    created: str  # ISO 8601
    verdict: Verdict
    headline: str
    baseline: str  # the ref or the arm, without its commit
    candidate: str
    died: bool = False  # whether an arm died
    ratio: float | None = None  # candidate / baseline of the steady step time

    @property
    def outcome(self) -> Verdict | Literal["died"]:
        """The displayed result."""
        return "died" if self.died else self.verdict

    @property
    def page(self) -> str:
        """The path of its page inside the store."""
        return f"comparisons/{self.comparison}/{self.case}/{self.id}/index.html"

    @property
    def pair(self) -> Pair:
        """The column of the matrix: named comparison, both refs and target."""
        return self.comparison, self.baseline, self.candidate, self.target


# fields of IndexedComparison: those of its pair, and the others in the order of a row of the JSON
PAIR = ("comparison", "baseline", "candidate", "target")
FIELDS = tuple(name for name in IndexedComparison.model_fields if name not in PAIR)


class IndexedCell(Frozen):
    """One cell of a night's matrix."""

    comparison: str  # name of the comparison
    case: str
    outcome: Verdict | Literal["failed", "died"]
    quarantine: str = ""  # the reason of a quarantine
    owner: str = ""
    page: str = ""  # path of the result's page inside the store; empty without one
    headline: str = ""


class IndexedNight(Frozen):
    """A night in the index."""

    id: str
    target: str
    ended: str  # ISO 8601
    headline: str
    cells: tuple[IndexedCell, ...]
    changes: tuple[str, ...] = ()  # sentences about the changes since the previous night on the same target


class StoreIndex(Frozen):
    """Everything on the index page."""

    comparisons: tuple[IndexedComparison, ...] = ()  # newest first
    nights: tuple[IndexedNight, ...] = ()  # newest first
    history: bool = False  # whether history.html exists
    unread: tuple[str, ...] = ()  # of the last rebuild: names of unreadable records, or error messages

    @field_serializer("comparisons")
    def _rows(self, comparisons: tuple[IndexedComparison, ...]) -> dict[str, Any]:
        """Return the results as rows without field names, and their pairs separately, to keep the page small.

        A row consists of the index of its pair in `pairs` and the values of FIELDS.
        """
        places = {pair: place for place, pair in enumerate(dict.fromkeys(item.pair for item in comparisons))}
        rows = [[places[item.pair], *(getattr(item, name) for name in FIELDS)] for item in comparisons]
        return {"pairs": list(places), "rows": rows}

    @field_validator("comparisons", mode="before")
    @classmethod
    def _of_rows(cls, value: Any) -> Any:
        """Invert `_rows`; return a value in another layout as it is. Raises ValueError for rows with other fields."""
        if not isinstance(value, dict):
            return value
        try:
            return [
                dict(zip((*PAIR, *FIELDS), (*value["pairs"][place], *rest), strict=True))
                for place, *rest in value["rows"]
            ]
        except (LookupError, TypeError) as error:
            raise ValueError("no rows of comparisons") from error


type Change = Callable[[StoreIndex], StoreIndex]


def add_comparison(record: ComparisonRecord) -> Change:
    """Return a change that adds the result of a comparison, or replaces it."""
    new = index_comparison(record)
    return lambda index: index.model_copy(update={"comparisons": in_order([*index.comparisons, new])})


def index_comparison(record: ComparisonRecord) -> IndexedComparison:
    """Return the result of a comparison as the index contains it."""
    row = next((row for row in record.rows if row.metric == TREND), None)
    both = row is not None and row.baseline and row.candidate is not None
    return IndexedComparison(
        **record.model_dump(include={"comparison", "case", "id", "target", "created", "verdict"}),
        headline=shorten_headline(record.headline),
        baseline=record.baseline.ref,
        candidate=record.candidate.ref,
        died=record.has_died,
        ratio=float(f"{row.candidate / row.baseline:.4g}") if both else None,  # type: ignore[union-attr,operator]
    )


def shorten_headline(headline: str, longest: int = MAX_HEADLINE_LENGTH) -> str:
    """Return a headline, shortened to `longest` characters, without the beginning `A against B: ` if it has one."""
    arms, _, rest = headline.partition(": ")
    return textwrap.shorten(visible(rest if " against " in arms else headline), longest, placeholder=" …")


def in_order(results: Iterable[IndexedComparison]) -> tuple[IndexedComparison, ...]:
    """Return the results, the newest first; of results with the same path, only the last given one."""
    kept = {(item.comparison, item.case, item.id): item for item in results}
    return tuple(sorted(kept.values(), key=lambda item: (item.created, item.comparison, item.case, item.id))[::-1])


def add_nights(records: Iterable[NightRecord]) -> Change:
    """Return a change that adds the nights, and keeps the NIGHTS nights that ended last."""
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
        changes=record.changes,
        cells=tuple(
            IndexedCell(
                comparison=result.cell.comparison,
                case=result.cell.case,
                outcome=result.word,
                quarantine=shorten(result.cell.quarantine, MAX_HEADLINE_LENGTH),
                owner=result.cell.owner,
                page=_name_of(result.page),
                headline=shorten_headline(result.headline, MAX_NIGHT_HEADLINE),
            )
            for result in record.results
        ),
    )


def _name_of(address: str) -> str:
    """Return the path of a result's page inside the store, also if the store moved; empty for other addresses."""
    parts = address.split("/")[-5:]
    return "/".join(parts) if len(parts) == 5 and parts[0] == "comparisons" else ""


def add_history(index: StoreIndex) -> StoreIndex:
    """Mark `history.html` as existing. This is a `Change`."""
    return index.model_copy(update={"history": True})


def parse_index(page: str) -> StoreIndex | None:
    """Return the index in the text of a page; None if there is none, or if its JSON does not fit this version."""
    found = DATA.search(page)
    try:
        return StoreIndex.model_validate_json(found[1]) if found else None
    except ValidationError:
        return None


def gather_index(store: Store) -> StoreIndex:
    """Build the index from all records in the store. It has no nights if the record of any night is unreadable."""
    found: list[IndexedComparison] = []
    unread: list[str] = []
    names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/comparison.json")]
    for some in batched(names, AT_ONCE):
        for name, data in store.files.read_many(list(some)).items():
            try:
                found.append(index_comparison(ComparisonRecord.model_validate_json(data)))
            except ValidationError:
                unread.append(name)
    index = StoreIndex(comparisons=in_order(found), history=store.files.stat(HISTORY) is not None)
    try:
        index = add_nights(read_records(store))(index)
    except StoreError as error:
        unread.append(str(error))
    return index.model_copy(update={"unread": tuple(unread)})
