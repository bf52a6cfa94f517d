"""Builds the rows of the step-by-step comparisons: losses, evaluations, all other values."""

from collections.abc import Sequence

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.parity import LOSS_LIKE, MetricParity, eval_table
from tasks.diff.judge.metric_rows import Cells, make_row, missing_decision
from tasks.metrics.merged_steps import place_of_row
from tasks.metrics.result_metrics import EVALUATION, LOSS, VALUES
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.run_facts import Measured
from tasks.records.text import counted


def loss_row(arms: Arms, curves: MetricParity, decision: Decision) -> MetricDiff:
    """Return the row of the losses, with the values of the first difference, else the number of steps.

    A loss that is worse at its end, and lower at the first difference, is shown by its last common step.
    """
    metric, cells = LOSS, (_steps_cell(arms[0]), _steps_cell(arms[1]))
    missing = missing_decision(cells, arms)
    if missing is None and (different := _first_difference(curves)):
        left, right = different[0].value, different[1].value
        is_lower = left is not None and right is not None and right < left
        cells = _last_values(curves, different) if decision.verdict == "regressed" and is_lower else different
        metric = LOSS.replace(decimals=_decimals_of(cells) if curves.unit else 6)
    return make_row(metric, cells, arms, missing or decision)


def _first_difference(curves: MetricParity) -> Cells | None:
    """Return both arms' values at the first step at which they differ; None if they differ nowhere."""
    first, places = curves.parity.first, curves.places
    if first is None:
        return None
    return (
        Measured(value=float(first.baseline), text=first.baseline, source=places[0]),
        Measured(value=float(first.candidate), text=first.candidate, source=places[1]),
    )


def _last_values(curves: MetricParity, first: Cells) -> Cells:
    """Return the mean loss of each arm's runs at the last common step, with the digits of the first difference."""
    digits = _decimals_of(first)
    ends = [float(side[:, -1].mean()) for side in curves.sides]
    note = f"step {int(curves.steps[-1])}"
    left, right = (Measured(value=end, text=f"{end:.{digits}f}", note=note) for end in ends)
    return left, right


def _decimals_of(cells: Cells) -> int:
    return len(cells[0].text.partition(".")[2])


def values_row(arms: Arms, parities: Sequence[MetricParity], decision: Decision | None) -> MetricDiff | None:
    """Return one row for all deterministic values of steps except the loss; None if the runs have none in common.

    `decision`: over all values in `parities`.
    """
    if decision is None:
        return None
    left = right = Measured(text=counted(len(parities), "value"))
    for item in parities:
        if different := _first_difference(item):
            name = item.parity.metric
            left, right = (Measured(text=f"{name} {cell.text}", source=cell.source) for cell in different)
            break
    return make_row(VALUES, (left, right), arms, decision)


def _steps_cell(arm: ArmRuns) -> Measured:
    counts = [run.reading.steps.height for run in arm.runs]
    runs = f" × {len(counts)}" if len(counts) > 1 else ""
    return Measured(text=f"{counted(max(counts), 'step')}{runs}" if any(counts) else "")


def evaluation_row(arms: Arms, parities: Sequence[MetricParity], decision: Decision | None) -> MetricDiff | None:
    """Return the row of the evaluations; None if neither arm has any.

    `decision`: over all values in `parities`; None if the arms have no value in common.
    """
    if not any(run.reading.evals for arm in arms for run in arm.runs):
        return None
    metric = EVALUATION
    cells = next(filter(None, map(_first_difference, parities)), None)
    if cells is None:
        cells = _last_cell(arms[0]), _last_cell(arms[1])
    else:
        metric = EVALUATION.replace(decimals=_decimals_of(cells))
    unlike = Decision(verdict="unknown", reason="the evaluations of the arms have no value in common")
    return make_row(metric, cells, arms, missing_decision(cells, arms) or decision or unlike)


def _last_cell(arm: ArmRuns) -> Measured:
    """Return the last evaluation loss of the first run; without losses, the number of evaluations.

    Without evaluations, the cell is empty.
    """
    table = eval_table(arm.first)
    losses = [name for name, kind in table.schema.items() if LOSS_LIKE in name and kind.is_numeric()]
    if table.is_empty() or not losses:
        return Measured(text="" if table.is_empty() else counted(table.height, "evaluation"))
    last = table[losses[0]].drop_nulls()[-1]
    return Measured(value=float(last), text=f"{last:g}", source=place_of_row(table, -1))
