"""Builds one row of the comparison's table from a metric, the values of both arms and a decision."""

from math import isclose, isfinite

from tasks.diff.arms import ArmRuns
from tasks.metrics.metric import Metric
from tasks.records import Decision, Measured, MetricDiff

DIED = "–, died"  # the cell of an arm that ended before it had a value
ABSENT = "not in the log"
NOT_JUDGED = "not judged"  # the verdict of rows that never decide the overall verdict

type Arms = tuple[ArmRuns, ArmRuns]
type Cells = tuple[Measured, Measured]


def make_row(metric: Metric, cells: Cells, arms: Arms, decision: Decision) -> MetricDiff:
    """Return a row, with the difference candidate − baseline. An empty cell gets the text DIED or ABSENT."""
    left, right = cells
    _check_effect(metric, cells, decision)
    difference = None if left.value is None or right.value is None else right.value - left.value
    texts = [cell.text or (DIED if arm.dead else ABSENT) for cell, arm in zip(cells, arms, strict=True)]
    return MetricDiff(
        metric=metric.name,
        title=metric.title,
        unit=metric.unit,
        better=metric.better,
        rule=metric.rule,
        group="maxview" if metric.maxview else "ours",
        baseline=left.value,
        candidate=right.value,
        baseline_text=texts[0],
        candidate_text=texts[1],
        difference=difference if difference is None or isfinite(difference) else None,
        difference_text=show_difference(difference, metric.decimals, thousands="" if metric.maxview else ","),
        baseline_source=left.source,
        candidate_source=right.source,
        **decision.model_dump(),
    )


def _check_effect(metric: Metric, cells: Cells, decision: Decision) -> None:
    """Raise ValueError if the effect of a decision is not the relative difference of the numbers in the row."""
    left, right = cells[0].value, cells[1].value
    if decision.effect is None or not left or right is None:
        return
    if not isclose(1 + decision.effect, right / left, rel_tol=1e-6):
        raise ValueError(f"{metric.title}: {left:g} and {right:g} do not differ by {100 * decision.effect:+.3g} %")


def show_difference(difference: float | None, decimals: int | None, *, thousands: str = "") -> str:
    """Return the difference as MaxView prints it: with a sign; `0` if it rounds to 0; `—` if unknown or not shown."""
    if difference is None or decimals is None or not isfinite(difference):
        return "—"
    return f"{difference:+{thousands}.{decimals}f}" if round(difference, decimals) else "0"


def missing_decision(cells: Cells, arms: Arms) -> Decision | None:
    """Return the decision for a row with a missing value; None if both arms have a value."""
    missing = [arm for cell, arm in zip(cells, arms, strict=True) if not cell.text]
    dead = [arm for arm in missing if arm.dead]
    if dead:  # the row of the metric `end` judges the death
        return not_judged(f"{' and '.join(arm.label for arm in dead)} died before it had a value")
    if len(missing) == 2:
        return not_judged("neither log has a value")
    return Decision(verdict="unknown", reason=f"the log of {missing[0].label} has no value") if missing else None


def is_unfilled(row: MetricDiff) -> bool:
    """Return whether neither arm has a value, like memory statistics on CPUs."""
    return {row.baseline_text, row.candidate_text} <= {ABSENT, DIED}


def not_judged(reason: str) -> Decision:
    """Return the decision of a row that is only shown."""
    return Decision(verdict=NOT_JUDGED, reason=reason)
