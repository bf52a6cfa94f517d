"""Turns the cells of two arms and a decision into one row of the table, with its texts."""

from math import isclose, isfinite

from tasks.diff.arms import ArmRuns
from tasks.metrics.metric import Metric
from tasks.records import Decision, Measured, MetricDiff

DIED = "–, died"  # the cell of an arm that ended before it had a value
ABSENT = "not in the log"
NOT_JUDGED = "not judged"  # the word of rows that never decide the verdict

type Arms = tuple[ArmRuns, ArmRuns]
type Cells = tuple[Measured, Measured]


def make_row(metric: Metric, cells: Cells, arms: Arms, decision: Decision) -> MetricDiff:
    """One row, candidate minus baseline; a cell without a text says why it has none."""
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
    """Raises ValueError where the effect of a decision is not the difference of the numbers beside it."""
    left, right = cells[0].value, cells[1].value
    if decision.effect is None or not left or right is None:
        return
    if not isclose(1 + decision.effect, right / left, rel_tol=1e-6):
        raise ValueError(f"{metric.title}: {left:g} and {right:g} do not differ by {100 * decision.effect:+.3g} %")


def show_difference(difference: float | None, decimals: int | None, *, thousands: str = "") -> str:
    """The difference as MaxView prints it: signed, `0` for none, `—` where it shows none or where there is none."""
    if difference is None or decimals is None or not isfinite(difference):
        return "—"
    return f"{difference:+{thousands}.{decimals}f}" if round(difference, decimals) else "0"


def missing_decision(cells: Cells, arms: Arms) -> Decision | None:
    """The decision when a value is missing on one side or both; None when both are there."""
    missing = [arm for cell, arm in zip(cells, arms, strict=True) if not cell.text]
    dead = [arm for arm in missing if arm.dead]
    if dead:  # the row of its end is judged
        return not_judged(f"{' and '.join(arm.label for arm in dead)} died before it had a value")
    if len(missing) == 2:
        return not_judged("neither log has a value")
    return Decision(verdict="unknown", reason=f"the log of {missing[0].label} has no value") if missing else None


def is_unfilled(row: MetricDiff) -> bool:
    """Whether neither side has a value, as on CPUs, which have no memory statistics."""
    return {row.baseline_text, row.candidate_text} <= {ABSENT, DIED}


def not_judged(reason: str) -> Decision:
    """What a row says that is shown, and decides nothing."""
    return Decision(verdict=NOT_JUDGED, reason=reason)
