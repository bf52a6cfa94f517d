"""Builds the rows that judge whether the change ran, and what the host does in later steps."""

from tasks.diff.examine.arms import Arms
from tasks.diff.judge.metric_rows import make_row
from tasks.metrics.result_metrics import CHANGE, LATER_STEPS
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.run_facts import Measured
from tasks.records.text import counted


def change_row(arms: Arms, coverage: ChangeCoverage | None) -> MetricDiff | None:
    """Return the row that tells what of the change was covered; None without a change of code and without gaps."""
    if coverage is None or not (coverage.lines or coverage.gaps or coverage.doubts):
        return None
    cells = Measured(text=coverage.sentence or "–")
    reason = "; ".join(filter(None, (*coverage.gaps, coverage.sentence, *coverage.doubts)))
    decision = Decision(verdict="unknown" if coverage.gaps else "same", reason=reason)
    return make_row(CHANGE, (cells, cells), arms, decision)


def later_row(arms: Arms, coverage: ChangeCoverage | None) -> MetricDiff | None:
    """Return the row of the host's calls in many steps; None if they were not compared, or cannot be."""
    later = coverage.later if coverage is not None else None
    if later is None or later.problem:
        return None
    cells = Measured(text=counted(later.steps, "call"))
    return make_row(
        LATER_STEPS, (cells, cells), arms,
        Decision(verdict="same" if later.first is None else "changed", reason=later.sentence),
    )  # fmt: skip
