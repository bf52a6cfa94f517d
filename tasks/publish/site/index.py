"""The index of a store: what its front page shows of all comparisons, and how a new result changes it.

A named comparison, such as `linen-vs-nnx`, is a file in configs/comparisons; a result is the outcome of one comparison
of one case. A night is one run of `maxview nightly`; its cells are the cases of its named comparisons. A pair is a
named comparison with both refs and a target.

The index page contains the index as JSON: the newest results, and the newest result of each case for the pairs that
were compared last. All older results are in segments, files of SEGMENT results each, which are written once. So one
more result costs the same in a store of three hundred and of a hundred thousand.
"""

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import batched
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError, field_serializer, field_validator

from configs.frozen import Frozen
from tasks.diff.judge.next_step import find_time_row
from tasks.diff.phrases.headlines import tell_lead, tell_result
from tasks.publish.content.marks import mark_comparison
from tasks.publish.markdown.night import night_headline, tell_night
from tasks.records.compared_case import ComparisonRecord, Verdict
from tasks.records.night import CellResult, NightChange, NightRecord
from tasks.records.text import shorten, visible
from tasks.store.atomic import StoreError
from tasks.store.nights import read_nights
from tasks.store.store import Store

PAGE = "index.html"
HISTORY = "history.html"
MARK = '<meta name="generator" content="maxview">'  # pages without it are not maxview's and are not replaced
DATA = re.compile(r'<script type="application/json" id="data">([^<]*)</script>')
FOLDER = "index"  # of the segments
NIGHTS = 14  # number of the latest nights that the index keeps
TOLD_NIGHTS = 2  # number of the latest nights whose cells have headlines
SEGMENT = 200  # results in a segment
OPEN = 40  # results that stay in the index when the others move into a segment
MAX_PAIRS = 12  # largest number of pairs on the page: the pairs with the newest results
MAX_HEADLINE_LENGTH = 160  # characters of a headline or of a quarantine's reason
MAX_NIGHT_HEADLINE = 300  # characters of a headline in the cell of a night
AT_ONCE = 100  # records in memory at once while the index is rebuilt

type Outcome = Verdict | Literal["died"]


class Pair(NamedTuple):
    """A column of the matrix."""

    comparison: str  # name of the comparison
    baseline: str  # the ref or the arm, without its commit
    candidate: str
    target: str


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
    effect: float | None = None  # of the step time: candidate / baseline − 1
    interval: tuple[float, float] | None = None  # ends of the 99 % interval of the effect
    allowed: float | None = None  # threshold of the effect
    marks: str = ""  # a letter per kind of evidence, see tasks/publish/content/marks.py
    lead: int = 0  # characters of the headline before its reason
    died: bool = False  # whether an arm died
    edited: bool = False  # whether the candidate is a working tree with uncommitted changes

    @property
    def outcome(self) -> Outcome:
        """The displayed result."""
        return "died" if self.died else self.verdict

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the result in its store."""
        return self.comparison, self.case, self.id

    @property
    def page(self) -> str:
        """The path of its page inside the store."""
        return f"comparisons/{self.comparison}/{self.case}/{self.id}/index.html"

    @property
    def pair(self) -> Pair:
        """The column of the matrix."""
        return Pair(self.comparison, self.baseline, self.candidate, self.target)


# fields of IndexedComparison: those of its pair, and the others in the order of a row of the JSON
FIELDS = tuple(name for name in IndexedComparison.model_fields if name not in Pair._fields)
DEFAULTS = tuple(IndexedComparison.model_fields[name].default for name in FIELDS)


def pack(results: Sequence[IndexedComparison]) -> dict[str, Any]:
    """Return results as rows without field names, and their pairs separately, to keep the JSON small.

    A row consists of the index of its pair in `pairs` and the values of FIELDS, up to the last one that is no default.
    """
    places = {pair: place for place, pair in enumerate(dict.fromkeys(item.pair for item in results))}
    rows = []
    for item in results:
        values = [getattr(item, name) for name in FIELDS]
        while values[-1] == DEFAULTS[len(values) - 1]:
            values.pop()
        rows.append([places[item.pair], *values])
    return {"pairs": list(places), "rows": rows}


def unpack(value: Any) -> Any:
    """Invert `pack`; return a value in another layout as it is. Raises ValueError for rows with other fields."""
    if not isinstance(value, dict):
        return value
    try:
        return [
            dict(zip((*Pair._fields, *FIELDS), (*value["pairs"][place], *rest, *DEFAULTS[len(rest) :]), strict=True))
            for place, *rest in value["rows"]
        ]
    except (LookupError, TypeError) as error:
        raise ValueError("no rows of comparisons") from error


class PackedResults(Frozen):
    """Results, newest first. Its JSON is packed."""

    comparisons: tuple[IndexedComparison, ...] = ()

    @field_serializer("comparisons")
    def _rows(self, comparisons: tuple[IndexedComparison, ...]) -> dict[str, Any]:
        return pack(comparisons)

    @field_validator("comparisons", mode="before")
    @classmethod
    def _of_rows(cls, value: Any) -> Any:
        return unpack(value)


class Segment(NamedTuple):
    """A file with results, which are in no other segment."""

    digest: str  # of its content
    size: int  # number of results
    first: str  # ISO 8601 date of its oldest result
    last: str  # of its newest

    @property
    def name(self) -> str:
        """The path of its file inside the store."""
        return f"{FOLDER}/{self.digest}.js"


class IndexedCell(Frozen):
    """One cell of a night's matrix."""

    comparison: str  # name of the comparison
    case: str
    outcome: Verdict | Literal["failed", "died"]
    quarantine: str = ""  # the reason of a quarantine
    owner: str = ""
    page: str = ""  # path of the result's page inside the store; empty without one
    headline: str = ""
    short: str = ""  # of a death: the headline without the details of its cause
    by_one_run: bool = False  # whether one run of each arm decides it


class IndexedNight(Frozen):
    """A night in the index."""

    id: str
    target: str
    ended: str  # ISO 8601
    headline: str  # with its sign
    told: str = ""  # without it
    cells: tuple[IndexedCell, ...]
    changes: tuple[NightChange, ...] = ()  # the changes since the previous night on the same target

    @field_serializer("cells")
    def _without_defaults(self, cells: tuple[IndexedCell, ...]) -> list[dict[str, Any]]:
        return [cell.model_dump(mode="json", exclude_defaults=True) for cell in cells]


class StoreIndex(PackedResults):
    """Everything on the index page. `comparisons` are the results that are in no segment."""

    segments: tuple[Segment, ...] = ()  # newest first
    # the newest result of each case, of up to MAX_PAIRS pairs, the pair with the newest result first
    matrix: tuple[IndexedComparison, ...] = ()
    counts: dict[Outcome, int] = {}  # of all results
    targets: tuple[str, ...] = ()  # of all results
    nights: tuple[IndexedNight, ...] = ()  # newest first
    history: bool = False  # whether history.html exists
    invariants: str = ""  # path of the newest page of invariants inside the store; empty without one
    unread: tuple[str, ...] = ()  # of the last rebuild: names of unreadable records, or error messages

    @property
    def total(self) -> int:
        """The number of all results."""
        return len(self.comparisons) + sum(segment.size for segment in self.segments)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of the matrix, the pair with the newest result first."""
        return tuple(dict.fromkeys(item.pair for item in self.matrix))

    @field_serializer("matrix")
    def _cells(self, matrix: tuple[IndexedComparison, ...]) -> dict[str, Any]:
        return pack(matrix)

    @field_validator("matrix", mode="before")
    @classmethod
    def _of_cells(cls, value: Any) -> Any:
        return unpack(value)


def count(
    index: StoreIndex, added: Iterable[IndexedComparison], removed: Iterable[IndexedComparison] = ()
) -> StoreIndex:
    """Return the index with the counts and targets after a change of its results."""
    counts, added = Counter(index.counts), tuple(added)
    counts.update(item.outcome for item in added)
    counts.subtract(item.outcome for item in removed)
    targets = sorted({*index.targets, *(item.target for item in added)})
    return index.replace(counts=dict(+counts), targets=tuple(targets))


def place_newest(index: StoreIndex, results: Iterable[IndexedComparison]) -> StoreIndex:
    """Return the index with these results in its matrix, unless it has newer ones of the same case and pair."""
    known = {(item.pair, item.case): item for item in index.matrix}
    for item in results:
        before = known.get((item.pair, item.case))
        if before is None or before.created <= item.created:
            known[item.pair, item.case] = item
    last: dict[Pair, str] = {}
    for item in known.values():
        last[item.pair] = max(item.created, last.get(item.pair, ""))
    shown = sorted(last, key=lambda pair: (last[pair], pair), reverse=True)[:MAX_PAIRS]
    kept = [item for item in known.values() if item.pair in shown]
    kept.sort(key=lambda item: (shown.index(item.pair), item.case))
    return index.replace(matrix=tuple(kept))


def index_comparison(record: ComparisonRecord) -> IndexedComparison:
    """Return the result of a comparison as the index contains it."""
    row, code = find_time_row(record.rows, record.verdict), record.code.get(record.candidate.name)
    allowed = abs(row.threshold / row.baseline) if row and row.threshold is not None and row.baseline else None
    low, high = (_round(row.effect_low), _round(row.effect_high)) if row else (None, None)
    return IndexedComparison(
        **record.model_dump(include={"comparison", "case", "id", "target", "created", "verdict"}),
        headline=_shorten(tell_result(record.conclusion, whole=False) + _tell_place(record), MAX_HEADLINE_LENGTH),
        lead=_measure(tell_lead(record.conclusion)),
        baseline=record.baseline.ref,
        candidate=record.candidate.ref,
        died=record.has_died,
        effect=_round(row.effect) if row else None,
        interval=(low, high) if low is not None and high is not None else None,
        allowed=_round(allowed),
        marks=mark_comparison(record),
        edited=bool(code is not None and code.changed),
    )


def _tell_place(record: ComparisonRecord) -> str:
    """Return ` at file.py:12` if the line is known at which another function begins; else empty."""
    root = record.explanation.root if record.explanation is not None else None
    another = record.function is not None and record.function.answer == "another"
    return f" at {root.file}:{root.line}" if root is not None and another and not record.has_died else ""


def _round(share: float | None) -> float | None:
    return None if share is None or not math.isfinite(share) else float(f"{share:.3g}")


def _shorten(text: str, longest: int) -> str:
    """Return a text in one line, shortened to `longest` characters."""
    return textwrap.shorten(visible(text), longest, placeholder=" …")


def _measure(lead: str) -> int:
    """Return the number of characters of a headline's beginning, as `_shorten` writes it."""
    return len(" ".join(visible(lead).split())) + 1 if lead else 0


def in_order(results: Iterable[IndexedComparison]) -> tuple[IndexedComparison, ...]:
    """Return the results, the newest first; of results with the same path, only the last given one."""
    kept = {item.key: item for item in results}
    return tuple(sorted(kept.values(), key=lambda item: (item.created, item.comparison, item.case, item.id))[::-1])


def place_nights(index: StoreIndex, records: Iterable[NightRecord]) -> StoreIndex:
    """Return the index with these nights, and the NIGHTS nights that ended last of all."""
    nights = {night.id: night for night in (*index.nights, *map(_indexed, records))}.values()
    last = sorted(nights, key=lambda night: night.ended, reverse=True)[:NIGHTS]
    told, quiet = last[:TOLD_NIGHTS], last[TOLD_NIGHTS:]
    return index.replace(nights=(*told, *map(_without_words, quiet)))


def _without_words(night: IndexedNight) -> IndexedNight:
    less = {"headline": "", "short": "", "by_one_run": False, "owner": ""}
    cells = (cell.replace(**(less | ({"page": ""} if cell.outcome == "same" else {}))) for cell in night.cells)
    return night.replace(cells=tuple(cells), changes=())


def _indexed(record: NightRecord) -> IndexedNight:
    return IndexedNight(
        id=record.plan.id,
        target=record.plan.target,
        ended=record.ended,
        headline=night_headline(record),
        told=tell_night(record)[1],
        changes=record.changes,
        cells=tuple(map(_index_cell, record.results)),
    )


def _index_cell(result: CellResult) -> IndexedCell:
    found = result.conclusion
    headline = _shorten(result.headline if found is None else tell_result(found), MAX_NIGHT_HEADLINE)
    lead = _measure(tell_lead(found)) if found is not None else 0
    return IndexedCell(
        comparison=result.cell.comparison,
        case=result.cell.case,
        outcome=result.word,
        quarantine=shorten(result.cell.quarantine, MAX_HEADLINE_LENGTH),
        owner=result.cell.owner,
        page=_name_of(result.page),
        headline=headline,
        # the log's own text: an error's type comes before its colon
        short=headline[:lead] + headline[lead:].partition(": ")[0] if result.word == "died" else "",
        by_one_run=found is not None and found.by_one_run,
    )


def _name_of(address: str) -> str:
    """Return the path of a result's page inside the store, also if the store moved; empty for other addresses."""
    parts = address.split("/")[-5:]
    return "/".join(parts) if len(parts) == 5 and parts[0] == "comparisons" else ""


def parse_index(page: str) -> StoreIndex | None:
    """Return the index in the text of a page; None if there is none, or if its JSON does not fit this version."""
    found = DATA.search(page)
    try:
        return StoreIndex.model_validate_json(found[1]) if found else None
    except ValidationError:
        return None


def gather_index(store: Store) -> StoreIndex:
    """Build the index from all records in the store, without segments.

    It has no nights if the record of any night is unreadable.
    """
    found: list[IndexedComparison] = []
    unread: list[str] = []
    names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/comparison.json")]
    for some in batched(names, AT_ONCE):
        for name, data in store.files.read_many(list(some)).items():
            try:
                found.append(index_comparison(ComparisonRecord.model_validate_json(data)))
            except ValidationError:
                unread.append(name)
    index = index_results(found).replace(
        history=store.files.stat(HISTORY) is not None, invariants=_newest_invariants(store)
    )
    try:
        index = place_nights(index, read_nights(store))
    except StoreError as error:
        unread.append(str(error))
    return index.replace(unread=tuple(unread))


def _newest_invariants(store: Store) -> str:
    """Return the path of the newest page of invariants inside the store; empty without one."""
    names = [entry.name for entry in store.files.entries("invariants", "invariants/*/*/invariants.json")]
    created = {name: json.loads(data).get("created", "") for name, data in store.files.read_many(names).items()}
    return max(created, key=lambda name: created[name]).replace("invariants.json", "index.html") if created else ""


def index_results(results: Iterable[IndexedComparison]) -> StoreIndex:
    """Return an index of these results, without segments."""
    found = in_order(results)
    index = count(StoreIndex(comparisons=found), found)
    newest = {(item.pair, item.case): item for item in reversed(found)}
    return place_newest(index, newest.values())
