"""Compares a metric of two arms step by step, at the best precision that all runs have; finds the first difference.

An arm is one side of a comparison of runs. `examine` first calls `number_alike`, which may renumber steps.
"""

import re
from functools import reduce
from math import inf
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from configs.frozen import Frozen
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.metrics.merged_steps import is_exact, last_of_each_step, place_of_row
from tasks.metrics.printed import Values, last_digit, round_to, shared_decimals
from tasks.records.compared_case import FirstDivergence, Parity
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source

EXACT = "the last bit (float32)"
INTEGERS = "the last digit (whole numbers)"
EXPONENTS = frozenset({"megatron"})  # formats of logs that print numbers like 1.090931E+01
POSITION_COLUMNS = frozenset({"step", "line", "offset", "time"})  # columns that locate a row and are no metrics
# digests of each step's batch, with and without the order of its rows: tasks/diff/judge/data_rows.py compares them
DATA_COLUMNS = ("batch_digest", "batch_rows_digest")
# names of values that differ between any two runs: times, rates, memory, power
NOISY_NAMES = re.compile(
    r"second|(?:^|[^a-z])(?:time|ms|s|tps|wps|mfu|mem|power|energy)(?:[^a-z]|$)|"
    r"(?:tokens|samples)[ _]per|flops|memory|elapsed|throughput",
    re.IGNORECASE,
)
MIN_STEPS = 3  # fewest steps that show equality or constancy; fewer values may be equal by chance
LOSS_LIKE = "loss"  # contained in the names of losses: lm_loss, moe_lb_loss, eval_loss
DERIVED = re.compile(r"perplexity|(?:^|[^a-z])ppl(?:[^a-z]|$)", re.IGNORECASE)  # exp(loss); the loss itself is compared

type Runs = tuple[tuple[int, RunRecord], ...]  # (number of the run in its arm, from 0; run)
type Part = Literal["steps", "evals"]  # the values of a run's training steps, or those of its evaluations


class Within(Frozen):
    """The values of one arm's runs at the first step at which they differ among themselves."""

    step: int
    numbers: tuple[int, ...]  # number of each compared run in its arm, from 0
    values: tuple[str, ...]  # the value of each compared run at `step`, as text
    places: tuple[Source | None, ...]  # the place of each value in its run's log; None if unknown


class MetricParity(Frozen, arbitrary_types_allowed=True):
    """The step-by-step comparison of one metric of two arms."""

    parity: Parity  # the summary that the comparison's record stores
    steps: NDArray[np.int64]  # the steps that all compared runs have
    sides: tuple[Values, Values]  # values at these steps: [runs, steps] of each arm
    exact: bool = False  # the values are known in full precision (float32)
    # one unit of the last printed digit, at the largest gap if there is a gap; 0 for `exact` values or integers
    unit: float
    places: tuple[Source | None, Source | None] = (None, None)  # of the first difference, per arm
    within: tuple[Within | None, Within | None] = (None, None)  # per arm; None: its runs are equal at all steps
    finite: Self | None = None  # the comparison of the finite steps only; None unless both arms have NaN or infinities

    @property
    def varies(self) -> bool:
        """Whether the runs of an arm differ among themselves."""
        return any(self.within)

    @property
    def has_equal_bits(self) -> bool:
        """Whether all compared runs have the same values in full precision, at one or more common steps."""
        return self.exact and self.parity.first is None and not self.varies and self.parity.steps > 0


def shared_metrics(arms: Arms, part: Part = "steps") -> list[str]:
    """Return the names of the deterministic metrics that every run has; of training steps, the loss is always first.

    Metrics of training steps come from the trainers' metrics files if every run `is_exact`, else from the logs.
    """
    tables = [_table(run, part, exact=_all_exact(arms)) for arm in arms for run in arm.runs]
    shared = [
        name
        for name, kind in tables[0].schema.items()
        if kind.is_numeric() and is_compared(name)
        if all(name in table.columns and table[name].null_count() < table.height for table in tables)
    ]
    return ["loss", *(name for name in shared if name != "loss")] if part == "steps" else shared


def is_compared(name: str) -> bool:
    """Return whether a column is compared, by its name: no position, digest of data, noisy value or perplexity."""
    return name not in {*POSITION_COLUMNS, *DATA_COLUMNS} and not NOISY_NAMES.search(name) and not DERIVED.search(name)


def compare_metric(
    arms: Arms, metric: str = "loss", part: Part = "steps", *, only_finite: bool = False
) -> MetricParity:
    """Compare a metric step by step, in each arm's runs that did not die, or in all its runs if every one died.

    Values of training steps are compared bit for bit if every run `is_exact`, else as the logs print them. Evaluations
    are compared as the logs print them. If the runs of an arm differ among themselves at a step, the arms differ there
    only if `nearest_distances` is above 0. only_finite: leave out steps at which a run has NaN or an infinity.
    """
    exact = part == "steps" and _all_exact(arms)
    runs = (_surviving_runs(arms[0]), _surviving_runs(arms[1]))
    steps, values = _align([_series(run, metric, part, exact=exact) for side in runs for _, run in side])
    if only_finite:
        kept = np.isfinite(values).all(axis=0)
        steps, values = steps[kept], values[:, kept]
    integers = all(_table(run, part, exact=exact).schema[metric].is_integer() for side in runs for _, run in side)
    decimals = 0 if exact or integers else shared_decimals(values)
    if not exact:
        values = round_to(values, decimals)
    sides = (values[: len(runs[0])], values[len(runs[0]) :])
    varies = [varies_at(side, exact=exact) for side in sides]
    gaps = nearest_distances(sides)
    if not exact:
        gaps = np.round(gaps, decimals)  # 9.701 − 9.7 is not exactly 0.001 in binary
    differs = np.where(varies[0] | varies[1], gaps > 0, varies_at(values, exact=exact))
    different = np.flatnonzero(differs)
    name = metric if part == "steps" else f"eval {metric}"
    precision = INTEGERS if integers else EXACT if exact else f"printed precision ({decimals} decimals)"
    unit = 0.0 if exact or integers else 10.0**-decimals
    summary: dict[str, Any] = {}
    places: tuple[Source | None, Source | None] = (None, None)
    if different.size:
        at, peak = int(different[0]), int(different[np.argmax(gaps[different])])
        step, pairs = int(steps[at]), {index: nearest_at(sides, index) for index in (at, peak)}
        if unit:
            exponents = all(run.reading.format in EXPONENTS for side in runs for _, run in side)
            unit = max(last_digit(value, values, decimals, exponents=exponents) for value in pairs[peak])
        texts = [repr(value) if exact and not integers else f"{value:.{decimals}f}" for value in pairs[at]]
        summary = {
            "first": FirstDivergence(
                metric=name, step=step, baseline=texts[0], candidate=texts[1], precision=precision
            ),
            "last": int(steps[different[-1]]), "largest_step": int(steps[peak]), "largest_gap": float(gaps[peak]),
        }  # fmt: skip
        left, right = (_place(runs[n], part, sides[n], at, step, value) for n, value in enumerate(pairs[at]))
        places = (left, right)
    within = [_within(runs[n], part, steps, sides[n], varies[n], exact=exact) for n in (0, 1)]
    broken = all(not np.isfinite(side).all() for side in sides)
    return MetricParity(
        parity=Parity(
            metric=name, steps=len(steps), runs=(len(runs[0]), len(runs[1])), precision=precision,
            different=len(different), **summary,
        ),
        steps=steps, sides=sides, exact=exact, unit=unit, places=places, within=(within[0], within[1]),
        finite=compare_metric(arms, metric, part, only_finite=True) if broken and not only_finite else None,
    )  # fmt: skip


def _all_exact(arms: Arms) -> bool:
    return all(is_exact(run) for arm in arms for run in arm.runs)


def _table(run: RunRecord, part: Part, *, exact: bool) -> pl.DataFrame:
    if part == "evals":
        return eval_table(run)
    return run.metrics if exact and run.metrics is not None else run.reading.steps


def eval_table(run: RunRecord) -> pl.DataFrame:
    """Return one row per evaluation of a run, in the log's order: `step`, `line`, `offset` and the printed values.

    If an evaluation names its data set, this name precedes the names of its values, as a step may have several sets.
    """
    rows = [
        {
            (f"{row['set']} {name}" if row.get("set") and name not in POSITION_COLUMNS else name): row[name]
            for name in row
        }
        for row in run.reading.evals
    ]
    return pl.DataFrame(rows, schema_overrides={"step": pl.Int64}, infer_schema_length=None, strict=False)


def _series(run: RunRecord, metric: str, part: Part, *, exact: bool) -> pl.DataFrame:
    """Return (step, value), ascending, without steps that have no value. A repeated step has its last row's value."""
    table = _table(run, part, exact=exact)
    if part == "evals":  # leaves out evaluations of other data sets at the same step
        table = table.filter(pl.col(metric).is_not_null())
    values = last_of_each_step(table).select(pl.col("step").cast(pl.Int64), value=pl.col(metric).cast(pl.Float64))
    return values.drop_nulls("value")


def _align(series: list[pl.DataFrame]) -> tuple[NDArray[np.int64], Values]:
    """Return the common steps of all tables, and their values: [runs, steps]."""
    named = [table.rename({"value": str(index)}) for index, table in enumerate(series)]
    joined = reduce(lambda left, right: left.join(right, on="step", how="inner"), named).sort("step")
    return joined["step"].to_numpy(), np.stack([joined[str(index)].to_numpy() for index in range(len(series))])


def _surviving_runs(arm: ArmRuns) -> Runs:
    """Return the runs that did not die, or all runs if every run died. A dead run lacks the later steps."""
    numbered = tuple(enumerate(arm.runs))
    return tuple(pair for pair in numbered if not pair[1].has_died) or numbered


def _within(
    runs: Runs, part: Part, steps: NDArray[np.int64], side: Values, varies: NDArray[np.bool_], *, exact: bool
) -> Within | None:
    if not varies.any():
        return None
    at = int(np.flatnonzero(varies)[0])
    step = int(steps[at])
    return Within(
        step=step,
        numbers=tuple(number for number, _ in runs),
        values=tuple(repr(float(value)) if exact else f"{value:g}" for value in side[:, at]),
        places=tuple(_line_of_step(run, part, step, number) for number, run in runs),
    )


def _place(runs: Runs, part: Part, side: Values, index: int, step: int, value: float) -> Source | None:
    """Return the place of a step in the log of the first run that has this value at that step."""
    rows = np.flatnonzero((side[:, index] == value) | (np.isnan(side[:, index]) & np.isnan(value)))
    number, run = runs[int(rows[0]) if rows.size else 0]
    return _line_of_step(run, part, step, number)


def _line_of_step(run: RunRecord, part: Part, step: int, number: int) -> Source | None:
    table = run.reading.steps if part == "steps" else eval_table(run)
    return place_of_row(table.filter(pl.col("step") == step), -1, run=number)


def varies_at(values: Values, *, exact: bool) -> NDArray[np.bool_]:
    """Return, per step, whether the runs differ. values: [runs, steps]. NaN equals NaN; if `exact`, 0.0 is not -0.0."""
    first = values[:1]
    if exact:
        # gives all NaNs the same bits, which otherwise depend on the hardware
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return np.asarray((bits != bits[:1]).any(axis=0))
    return np.asarray(~((values == first) | (np.isnan(values) & np.isnan(first))).all(axis=0))


def nearest_distances(sides: tuple[Values, Values]) -> Values:
    """Return the distance between the nearest values of two arms at each step. sides: [runs, steps] of each.

    0 where the ranges of the arms' values overlap. At a step with NaN or infinities: 0 if both arms have NaN, if both
    have the same infinity, or if the ranges of their finite values overlap; else inf.
    """
    finite = [np.isfinite(side) for side in sides]
    low = [np.where(known, side, inf).min(axis=0) for side, known in zip(sides, finite, strict=True)]
    high = [np.where(known, side, -inf).max(axis=0) for side, known in zip(sides, finite, strict=True)]
    with np.errstate(invalid="ignore"):
        apart = np.maximum(np.maximum(low[1] - high[0], low[0] - high[1]), 0.0)
    numbers = finite[0].any(axis=0) & finite[1].any(axis=0)
    shared = np.zeros(numbers.shape, dtype=bool)
    for is_kind in (np.isnan, np.isposinf, np.isneginf):
        shared |= is_kind(sides[0]).any(axis=0) & is_kind(sides[1]).any(axis=0)
    pure = finite[0].all(axis=0) & finite[1].all(axis=0)
    return np.where(pure, apart, np.where(shared | (numbers & (apart == 0)), 0.0, inf))


def nearest_at(sides: tuple[Values, Values], index: int) -> tuple[float, float]:
    """Return the two values, one of each arm, that are nearest to each other at the step with this index."""
    left, right = (side[:, index] for side in sides)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(left[:, None] - right[None, :]), nan=inf, posinf=inf)
    row, column = np.unravel_index(int(np.argmin(distance)), distance.shape)
    return float(left[row]), float(right[column])


def number_alike(arms: Arms) -> Arms:
    """Return both arms, with the steps of an arm renumbered from 0 if three conditions hold.

    All logs of this arm begin at step 1 and those of the other at 0; all logs have equally many steps; and the losses
    then agree better. A log that lacks its step 0 begins at 1 too, but its losses agree better without renumbering.
    """
    steps = [[run.reading.steps["step"] for run in arm.runs] for arm in arms]
    begins = [{table.first() for table in side} for side in steps]
    if begins not in ([{0}, {1}], [{1}, {0}]) or len({len(table) for side in steps for table in side}) > 1:
        return arms
    alike = (_from_zero(arms[0]), arms[1]) if begins[0] == {1} else (arms[0], _from_zero(arms[1]))
    return alike if _mean_gap(alike) < _mean_gap(arms) else arms


def _from_zero(arm: ArmRuns) -> ArmRuns:
    runs = []
    for run in arm.runs:
        steps = run.reading.steps.with_columns(pl.col("step") - 1)
        evals = tuple(row | {"step": None if row["step"] is None else row["step"] - 1} for row in run.reading.evals)
        reading = run.reading.replace(steps=steps, evals=evals)
        runs.append(run.replace(reading=reading, facts=None))
    return arm.replace(runs=tuple(runs), counts_from=1)


def _mean_gap(arms: Arms) -> float:
    """Return the mean absolute difference of the losses of the arms' first runs; inf if they have no common step."""
    left, right = (side[0] for side in compare_metric(arms).sides)
    return float(np.abs(right - left).mean()) if left.size else np.inf
