"""In: a comparison. Out: a remark for each result that is not *same*, at the line of the candidate that it is about."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tasks.metrics.memory_metrics import MEMORY_METRICS
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.time_metrics import TIME_METRICS
from tasks.publish.content.brief import make_brief
from tasks.publish.content.verdict_words import name_row
from tasks.records.compared_case import ComparisonRecord, MetricDiff, Verdict

Level = Literal["error", "warning", "notice"]
LEVELS: dict[Verdict, Level] = {"regressed": "error", "changed": "error", "unknown": "warning", "improved": "notice"}
MEMORIES = frozenset({MEMORY.name, *(metric.name for metric in MEMORY_METRICS)})
TIMES = frozenset(metric.name for metric in TIME_METRICS)


class Place(NamedTuple):
    """A line of the candidate's source."""

    file: str  # path below the checkout
    line: int  # 1-based


class Annotation(NamedTuple):
    """A remark on a line."""

    rule: str  # a metric's name, or `died`
    level: Level
    message: str  # in one line
    place: Place | None  # None: no line is known


def annotate(record: ComparisonRecord) -> Iterator[Annotation]:
    """Yield the remarks of a comparison: one for a death, else one for each row that is neither *same* nor only shown.

    Rows that the comparison's config allows to change are left out.
    """
    if record.has_died:
        brief = make_brief(record)
        yield Annotation("died", "error", f"{record.case}: {brief.sentence}", _place_of_death(record))
        return
    for row in record.rows:
        if row.verdict in LEVELS and not row.allowed:
            text = f"{record.case}: {name_row(row)} {row.verdict}: {row.reason}"
            yield Annotation(row.metric, LEVELS[row.verdict], text, _place_of_row(record, row))


def _place_of_death(record: ComparisonRecord) -> Place | None:
    cause = record.candidate.cause_of_death
    file, _, line = (cause.place if cause else "").partition(" ")[0].rpartition(":")
    return Place(file, int(line)) if file and line.isdecimal() else None


def _place_of_row(record: ComparisonRecord, row: MetricDiff) -> Place | None:
    """Return the line that explains a row: of its cost, else of the first tensor that differs, else of the change."""
    found = record.explanation
    if found is not None and row.metric in MEMORIES | TIMES:
        cost = found.line_of_cost(memory=row.metric in MEMORIES)
        if cost is not None and cost.file:
            return Place(cost.file, cost.line)
    elif found is not None and found.root is not None and found.root.file:
        return Place(found.root.file, found.root.line)
    if found is not None and found.lines:
        return Place(found.lines[0].file, found.lines[0].line)
    changed = record.coverage.listed if record.coverage else ()
    return next((Place(one.file, one.line) for one in changed if one.side == "candidate"), None)
