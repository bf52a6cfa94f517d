"""Says whether more repeats would help a comparison to a decision, and how many to try next."""

from tasks.diff.rows import NOT_JUDGED
from tasks.records import ComparisonRecord, MetricDiff

AT_MOST_TIMES = 2  # as many repeats as before: what is asked for is a guess out of few runs


def next_repeats(repeats: int, wanted: int | None, *, most: int) -> int:
    """The repeats for the next look: what is asked for, within reason and one at least; `most` is the end."""
    reasonable = AT_MOST_TIMES * repeats
    return min(most, max(repeats + 1, min(wanted or reasonable, reasonable)))


def undecided_rows(record: ComparisonRecord) -> list[MetricDiff]:
    """The judged rows that more runs may decide, each measurement once; none if something else keeps them open."""
    if any(finding.effect == "blocks" for finding in record.findings):
        return []
    return [
        row
        for row in record.rows
        if row.group == "ours"  # MaxView's rows of single steps share the decision of the steady ones
        and row.verdict == "unknown"
        and row.threshold_text != NOT_JUDGED
        and (row.runs_wanted is not None or row.effect is not None)
    ]
