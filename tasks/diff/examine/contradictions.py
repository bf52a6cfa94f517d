"""Finds contradictions within a run: its log and metrics file disagree, steps are repeated without a restart, or the
log has an exception but exit code 0. Also finds two logs of a single run, and differences that rounding can explain."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.observed import Observations, contrast, notice
from tasks.diff.examine.offsets import is_rounding
from tasks.diff.examine.parity import MetricParity, is_compared
from tasks.metrics.merged_steps import have_equal_times, is_exact, last_of_each_step, place_of_row
from tasks.metrics.printed import printed_units
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tasks.records.text import counted

SECONDS = ("seconds", "step_time_s")  # column of the step time in the log, and in the metrics file
CLOCK_READS = 2.0  # limit of the difference between log and metrics file in a step's time, in last digits
FLOAT32 = 2.0**-22  # relative error of a float32 that was converted to decimal and back twice


def find_contradictions(arms: Arms, parities: Sequence[MetricParity]) -> Observations:
    """Yield findings for contradictions within each run, and for differences that rounding can explain."""
    for arm in arms:
        for number, run in enumerate(arm.runs):
            yield from _compare_log_with_metrics(arm, number, run)
            yield from _find_repeated_steps(arm, number, run)
    yield from _find_survived_exceptions(arms)
    yield from _find_last_digit_differences(arms, parities)


def _compare_log_with_metrics(arm: ArmRuns, number: int, run: RunRecord) -> Observations:
    """Yield a finding for the first step at which log and metrics file differ by more than the log's rounding."""
    if not is_exact(run) or run.metrics is None:
        return
    log, metrics = last_of_each_step(run.reading.steps), last_of_each_step(run.metrics)
    metrics = metrics.with_columns(pl.col("step").cast(pl.Int64) - arm.counts_from)
    shared = [(name, name) for name in log.columns if name in metrics.columns and is_compared(name)]
    disagreements = []
    for printed, written in (*shared, SECONDS):
        if not (log.schema[printed].is_numeric() and metrics.schema[written].is_numeric()):
            continue
        both = log.select("step", "line", "offset", log=pl.col(printed).cast(pl.Float64)).join(
            metrics.select("step", file=pl.col(written).cast(pl.Float64)), on="step"
        )
        both = both.drop_nulls(["log", "file"]).sort("step")
        left, right = both["log"].to_numpy(), both["file"].to_numpy()
        units = CLOCK_READS if printed == SECONDS[0] else 0.5
        for at in np.flatnonzero(_disagree(left, right, units)).tolist()[:1]:
            disagreements.append((both["step"][at], printed, left[at], right[at], place_of_row(both, at, run=number)))
    if disagreements:
        step, name, printed_value, value, place = min(disagreements, key=lambda item: item[0])
        also = ", ".join(item[1] for item in disagreements if item[1] != name)
        message = (
            f"the log and the metrics file of {arm.name_run(number)} disagree at step {step}: {name} {printed_value:g} "
            f"in the log, {value:g} in the file{f' (also {also})' if also else ''}"
        )
        yield notice("log-disagrees", message, (arm, f"{name} {printed_value:g} and {value:g}", place))


def _disagree(left: NDArray[np.float64], right: NDArray[np.float64], units: float) -> NDArray[np.bool_]:
    """Return where printed values (left) differ from precise ones by more than `units` × the last printed digit."""
    finite = np.isfinite(left) & np.isfinite(right)
    known = np.where(finite, left, 0.0)
    allowed = units * printed_units(known) * (1 + 1e-6) + FLOAT32 * np.abs(known)
    with np.errstate(invalid="ignore"):
        apart = np.abs(known - np.where(finite, right, 0.0)) > allowed
    alike = (left == right) | (np.isnan(left) & np.isnan(right))
    return np.where(finite, apart, ~alike)


def _find_repeated_steps(arm: ArmRuns, number: int, run: RunRecord) -> Observations:
    """Yield a finding for steps that were printed or written several times in a row without a restart."""
    above = run.reading.steps.with_columns(since=pl.col("offset").shift(), above=pl.col("line").shift())
    again = above.filter(pl.col("step").diff() == 0).rows(named=True)
    restarts = [restore.offset for restore in run.reading.restores]
    odd = [row for row in again if not any(row["since"] < offset < row["offset"] for offset in restarts)]
    # one repeat after other lines may be an unreported restart, so it gives no finding
    if odd and (len(odd) > 1 or odd[0]["line"] - odd[0]["above"] <= 1):
        first = odd[0]
        place = Source(line=first["line"], offset=first["offset"], run=number)
        message = f"the log of {arm.name_run(number)} has step {first['step']} twice, with no restart between them"
        more = f" ({counted(len(odd), 'step')} in all)" if len(odd) > 1 else ""
        yield notice("repeated-steps", message + more, (arm, f"step {first['step']} again", place))
    elif run.metrics is not None and "step" in run.metrics.columns:
        twice = run.metrics.filter(pl.col("step").diff() == 0)["step"]
        if len(twice) > run.reading.coverage.rewinds + len(restarts):
            message = (
                f"the metrics file of {arm.name_run(number)} has step {twice[0]} twice, with no restart between them"
            )
            yield notice("repeated-steps", message, (arm, f"step {twice[0]} again", None))


def find_same_log(arms: Arms, *, aa: bool) -> Observations:
    """Yield a finding for each pair of runs, one of each arm, whose logs or metrics files come from a single run.

    Two logs from the user are checked only in an A/A comparison (one version twice). In other comparisons `check_apart`
    (tasks/ingest) has already rejected two logs of one run.
    """
    for (number, run), (other, theirs) in product(enumerate(arms[0].runs), enumerate(arms[1].runs)):
        given = run.plan is None and theirs.plan is None
        if (given and not aa) or (what := _find_same_file(run, theirs)) is None:
            continue
        message = f"the {what} of {arms[0].name_run(number)} and {arms[1].name_run(other)} show one run"
        shown = ((arms[0], number, run), (arms[1], other, theirs))
        places = ((arm, "its first step", place_of_row(each.reading.steps, run=index)) for arm, index, each in shown)
        yield notice("same-log", f"{message}, so there is no second run to compare", *places)


def _find_same_file(one: RunRecord, other: RunRecord) -> str | None:
    """Return "logs" or "metrics files" if these files of both runs come from a single run; None if neither does."""
    steps, others = one.reading.steps, other.reading.steps
    dated = steps["time"].null_count() < steps.height
    if (dated and steps.equals(others)) or have_equal_times(steps, others):
        return "logs"
    written = [run.metrics for run in (one, other) if run.metrics is not None and is_exact(run)]
    return "metrics files" if len(written) == 2 and have_equal_times(*written) else None


def _find_survived_exceptions(arms: Arms) -> Observations:
    """Yield one finding for all exceptions in the logs of runs that ended with exit code 0."""
    shown = [
        (arm, number, error) for arm in arms for number, run in enumerate(arm.runs) if (error := run.reading.survived)
    ]
    if shown:
        said = dict.fromkeys(f"{arm.name_run(number)} ({error.summary})" for arm, number, error in shown)
        message = f"the log contains an exception, although the exit code is 0: {'; '.join(said)}"
        places = (
            (arm, error.summary, Source(line=error.line, offset=error.offset, run=number))
            for arm, number, error in shown
        )
        yield notice("survived-exception", message, *places)


def _find_last_digit_differences(arms: Arms, parities: Sequence[MetricParity]) -> Observations:
    """Yield one finding for all metrics that differ by at most one unit of the last digit, which may be rounding."""
    rounded = [item for item in parities if is_rounding(item)]
    if rounded and (first := rounded[0].parity.first):
        names = ", ".join(item.parity.metric for item in rounded)
        many = f", {rounded[0].parity.different} steps in all" if rounded[0].parity.different > 1 else ""
        message = (
            f"{names} differ{'s' if len(rounded) == 1 else ''} by one unit of the last printed digit, first at step "
            f"{first.step} ({first.baseline} and {first.candidate}{many})"
        )
        yield contrast(arms, "last-digit", message, (first.baseline, first.candidate), rounded[0].places)
