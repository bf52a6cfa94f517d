"""Builds the row that judges whether the change ran."""

from tasks.diff.examine.arms import Arms
from tasks.diff.judge.metric_rows import make_row
from tasks.metrics.result_metrics import CHANGE
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.run_facts import Measured


def change_row(arms: Arms, coverage: ChangeCoverage | None) -> MetricDiff | None:
    """Return the row that tells what of the change was covered; None without a change of code and without gaps."""
    if coverage is None or not (coverage.lines or coverage.gaps or coverage.doubts):
        return None
    cells = Measured(text=coverage.sentence or "–")
    reason = "; ".join(filter(None, (*coverage.gaps, coverage.sentence, *coverage.doubts)))
    decision = Decision(verdict="unknown" if coverage.gaps else "same", reason=reason)
    return make_row(CHANGE, (cells, cells), arms, decision)
