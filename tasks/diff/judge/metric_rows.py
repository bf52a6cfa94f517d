"""Builds the rows of a comparison's table: for each metric, both sides' (arms') values and the decision on them."""

from collections.abc import Iterator, Mapping
from math import isclose, isfinite

import polars as pl

from configs.verdict_rules import Tolerance
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.undeclared_differences import declared_packages, is_declared
from tasks.diff.judge.decide import decide_exact
from tasks.metrics.maxview_metrics import FINAL_LOSS, JAX, MEAN_STEP
from tasks.metrics.merged_steps import last_of_each_step, place_of_row
from tasks.metrics.metric import Metric, number
from tasks.metrics.result_metrics import LOSS
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.run_facts import Measured
from tasks.records.shared_fields import Source

DIED = "–, died"  # the cell of an arm with a dead run and without a value
ABSENT = "not in the log"
NOT_JUDGED = "not judged"  # the verdict of rows that never decide the overall verdict
type Cells = tuple[Measured, Measured]
EXACT = Tolerance(absolute=0.0, why="equal by default")


def table_rows(
    arms: Arms,
    tolerances: Mapping[str, Tolerance],
    built: Mapping[str, MetricDiff | None],
    decisions: Mapping[str, Decision],
) -> Iterator[MetricDiff]:
    """Yield the rows in the order of METRICS.

    `built`: metric → the row that another module built; None: the table has no row for it. `decisions`: metric → the
    decision on the step time or on the losses of all steps; rows of other metrics share it.
    """
    steady = built[STEP_TIME.name]
    assert steady is not None
    for metric in METRICS:
        row = built[metric.name] if metric.name in built else _entry_row(metric, arms, tolerances, steady, decisions)
        if row is not None:
            yield row


def _entry_row(
    metric: Metric,
    arms: Arms,
    tolerances: Mapping[str, Tolerance],
    steady: MetricDiff,
    decisions: Mapping[str, Decision],
) -> MetricDiff | None:
    cells = (
        _cell(metric, arms[0], steady.baseline, steady.baseline_source),
        _cell(metric, arms[1], steady.candidate, steady.candidate_source),
    )
    lacking = [arm for arm, cell in zip(arms, cells, strict=True) if not cell.text]
    if metric.optional and (len(lacking) == 2 or any(not arm.dead for arm in lacking)):
        return None
    values = [facts.values[metric.name] for arm in arms for facts in arm.facts] if metric.printed else []
    if metric.printed and any(one.value is None or one.unit for one in values):  # some run has no precise value
        changes, of = metric.printed.model_dump(include={"decimals", "precision"}), metric.printed.of
        metric, cells = metric.replace(**changes), (of(arms[0].first), of(arms[1].first))
    if metric is FINAL_LOSS and (step := _last_common_step(arms)) is not None:
        metric = metric.replace(rule=f"step {step}, the last one that both have")
        cells = (_loss_at(step, arms[0]), _loss_at(step, arms[1]))
    decision = missing_decision(cells, arms)
    if metric.judged == "noise":  # the row of the step time decides for it
        judging = decisions[metric.verdict_of]
        level = f"the {judging.level}" if judging.level else "the step time"
        flip = _sign_flip(cells, steady.difference, level) if metric is MEAN_STEP else ""
        decision = not_judged(decision.reason if decision else f"see {level}: {metric.why}{flip}")
    elif decision is None and metric.judged == "exact":
        decision = _decide(metric, cells, arms, tolerances, decisions)
    notes = [f"{arm.label}: {cell.note}" for arm, cell in zip(arms, cells, strict=True) if cell.note]
    return make_row(metric, cells, arms, decision or not_judged("; ".join([metric.why, *notes])))


def _cell(metric: Metric, arm: ArmRuns, steady_s: float | None, place: Source | None) -> Measured:
    """Return the value of an arm: from its steady step (`of_steps`), of all runs (`of_runs`), or of its first run."""
    if metric.of_steps:
        value = metric.of_steps(arm.first, steady_s) if steady_s else None
        return Measured() if value is None else number(value, metric.decimals or 0, place)
    cell = metric.of_runs(arm.runs, arm.facts) if metric.of_runs else arm.facts[0].values[metric.name]
    return cell if cell.text or arm.dead else cell.replace(text=metric.lacking)


def _last_common_step(arms: Arms) -> int | None:
    """Return the last step that both first runs have; None if it is the last step of both, or if there is none."""
    steps = [arm.reading.steps.filter(pl.col("loss").is_not_null())["step"] for arm in arms]
    common = set(steps[0]) & set(steps[1])
    if not common or steps[0].max() == steps[1].max():
        return None
    return int(max(common))


def _loss_at(step: int, arm: ArmRuns) -> Measured:
    """Return the loss of an arm's first run at a step that it has."""
    rows = last_of_each_step(arm.reading.steps).filter(pl.col("step") == step)
    return number(rows["loss"][0], FINAL_LOSS.decimals or 0, place_of_row(rows))


def _decide(
    metric: Metric,
    cells: Cells,
    arms: Arms,
    tolerances: Mapping[str, Tolerance],
    decisions: Mapping[str, Decision],
) -> Decision:
    if metric is JAX:
        return _decide_jax(cells, arms)
    left, right = cells[0].value, cells[1].value
    assert left is not None  # a cell with a text has a number, except for JAX
    assert right is not None
    if metric.name == FINAL_LOSS.name:
        last = [arm.reading.steps["step"][-1] for arm in arms]
        if last[0] != last[1]:
            reason = f"the last steps are not the same ({last[0]} and {last[1]})"
            # after a death the losses of the common steps are judged instead
            return not_judged(reason) if any(arm.dead for arm in arms) else Decision(verdict="unknown", reason=reason)
        if left != right:  # the row of all steps contains this loss, so both rows have the same verdict
            loss = decisions[LOSS.name]
            return loss.replace(reason=f"{loss.reason}; one of the losses of all steps")
    return decide_exact(
        left,
        right,
        better=metric.better,
        tolerance=tolerances[metric.tolerance] if metric.tolerance else EXACT,
        precision=metric.precision,
        unit=max(cell.unit for cell in cells),
    )


def _decide_jax(cells: Cells, arms: Arms) -> Decision:
    if cells[0].text == cells[1].text:
        return Decision(verdict="same", reason="the same version", threshold_text="exact")
    if is_declared("jax", declared_packages(arms)):
        return not_judged("different versions, as declared; they can explain any other difference")
    reason = "different versions: this alone can change speed, memory and losses"
    return Decision(verdict="changed", reason=reason, threshold_text="exact")


def _sign_flip(cells: Cells, steady: float | None, level: str) -> str:
    """Return a note if the mean steps and the judged levels (difference `steady`, in s) disagree on the faster arm."""
    left, right = cells[0].value, cells[1].value
    if left is None or right is None or steady is None or (right - left) * steady >= 0:
        return ""
    return f", and the sign flips ({right - left:+.3f} s here, {steady:+.3f} s by {level})"


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
        decimals=metric.decimals,
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
