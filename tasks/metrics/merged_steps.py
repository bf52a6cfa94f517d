"""Merges a run's log and its metrics file into one table of steps, at the best available precision.

The metrics file is the trainer's own record of its steps: JSON lines, or MaxText's TensorBoard files.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.metrics.printed import shared_decimals
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source

STEP_COLUMNS = ["step", "seconds", "loss", "line", "offset"]
RATE = "tokens_per_s_per_device"
PRINTED_UNIT_S = 0.001  # unit of the last printed digit of seconds: every log prints milliseconds or finer
MIN_LINES = 2  # fewest lines for `refine_seconds`, which compares lines with each other
CLOCKS = ("seconds", "step_time_s", "tflops_per_device", RATE)  # columns with measured times and rates
MIN_COMMON = 10  # fewest common steps for `have_equal_times`: with few digits, fewer may agree by chance
MIN_TIMES = 5  # fewest different times for `have_equal_times`: one time at all steps proves nothing


def step_table(run: RunRecord) -> pl.DataFrame:
    """Return a table (step, seconds, loss, line, offset), ascending by step. A repeated step has its last values.

    Seconds and losses come from the metrics file if the run `is_exact`. Otherwise they come from the log, with the
    seconds refined by `refine_seconds`. `line` and `offset` (place in the log) are null for steps that only the metrics
    file contains.
    """
    return timed_steps(run)[0]


def timed_steps(run: RunRecord) -> tuple[pl.DataFrame, float]:
    """Return the table of `step_table`, and the precision of its seconds: one unit of their last digit; 0 if exact."""
    return run.derive("timed steps", _merge)


def _merge(run: RunRecord) -> tuple[pl.DataFrame, float]:
    printed = last_of_each_step(run.reading.steps)
    if not is_exact(run):
        if RATE not in printed.columns:
            return printed.select(STEP_COLUMNS), PRINTED_UNIT_S
        columns = (printed[name].cast(pl.Float64).to_numpy() for name in ("seconds", RATE))
        seconds, unit = refine_seconds(*columns)
        return printed.select(STEP_COLUMNS).with_columns(pl.Series("seconds", seconds).fill_nan(None)), unit
    assert run.metrics is not None  # `is_exact` has checked it
    exact = last_of_each_step(run.metrics).select(
        pl.col("step").cast(pl.Int64),
        seconds=pl.col("step_time_s").cast(pl.Float64),
        loss=pl.col("loss").cast(pl.Float64),
    )
    return exact.join(printed.select("step", "line", "offset"), on="step", how="left").sort("step"), 0.0


def last_of_each_step(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows by ascending step, with only the last row of each repeated step."""
    if (np.diff(table["step"].to_numpy()) > 0).all():  # true for most logs
        return table
    return table.unique("step", keep="last", maintain_order=True).sort("step")


def is_exact(run: RunRecord) -> bool:
    """Return whether the metrics file has rows, and columns with step times and losses in full precision."""
    metrics = run.metrics
    return metrics is not None and metrics.height > 0 and {"step", "step_time_s", "loss"} <= set(metrics.columns)


def waited_per_step(run: RunRecord) -> NDArray[np.float64] | None:
    """Return, for every step after the first, the seconds that the trainer's threads waited for other programs.

    None unless the run `is_exact` and its trainer measured them for every step. Meaningful only on CPUs.
    """
    return _measured(run, "step_wait_s") if is_exact(run) else None


def cpu_seconds(run: RunRecord) -> NDArray[np.float64] | None:
    """Return the CPU time in seconds of every step after the first; None unless it was measured for every step."""
    return _measured(run, "step_cpu_time_s")


def _measured(run: RunRecord, column: str) -> NDArray[np.float64] | None:
    if run.metrics is None or column not in run.metrics.columns:
        return None
    values = last_of_each_step(run.metrics)[column].cast(pl.Float64)
    return None if values.null_count() else values.to_numpy()[1:]


def place_of_row(steps: pl.DataFrame, index: int = 0, *, run: int = 0) -> Source | None:
    """Return the place in the log of one row of a step table; None if unknown. run: index of the run in its version."""
    if not -steps.height <= index < steps.height or steps["line"][index] is None:
        return None
    return Source(line=steps["line"][index], offset=steps["offset"][index], run=run)


def refine_seconds(seconds: NDArray[np.float64], rate: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return step times, refined by the printed token rate, and one unit of their last digit (s). Missing values: NaN.

    `seconds: 0.071` is any time from 0.0705 to 0.0715. `Tokens/s/device: 1812.056` of the same line gives this time to
    six digits if the number of tokens per step is known. Each line bounds the number of tokens, a long step most
    narrowly. If the bounds of two lines exclude each other, or fewer than MIN_LINES lines have a time and a rate, the
    seconds are returned as printed. A line without a rate keeps its printed seconds.
    """
    known = np.isfinite(seconds) & np.isfinite(rate) & (seconds > 0) & (rate > 0)
    tokens = tokens_of(seconds[known], rate[known]) if known.sum() >= MIN_LINES else None
    if tokens is None:
        return seconds, PRINTED_UNIT_S
    quick = float(np.median(rate[known]))
    unit = min(PRINTED_UNIT_S, tokens * 10.0 ** -shared_decimals(rate[known][None]) / quick**2)
    return np.where(known, tokens / np.where(known, rate, 1.0), seconds), unit


def tokens_of(seconds: NDArray[np.float64], rate: NDArray[np.float64]) -> float | None:
    """Return the tokens per step and device: seconds × rate, equal at all steps; None if no number fits all steps.

    If several whole numbers or none fit, the result is the middle of the possible range.
    """
    halves = [10.0 ** -shared_decimals(values[None]) / 2 for values in (seconds, rate)]
    low = float(np.max(np.maximum(seconds - halves[0], 0) * np.maximum(rate - halves[1], 0)))
    high = float(np.min((seconds + halves[0]) * (rate + halves[1])))
    if low > high:
        return None
    whole = np.ceil(low)
    return float(whole) if whole <= high and whole + 1 > high else (low + high) / 2


def have_equal_times(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Return whether two tables of steps have the same times and rates, in their common columns, at every common step.

    False if there are fewer than MIN_COMMON common steps, or fewer than MIN_TIMES different times. Other lines, dates
    and missing parts of a log are ignored, so that a cut or edited copy is recognised as well.
    """
    tables = left, right = last_of_each_step(one), last_of_each_step(other)
    _, rows, other_rows = np.intersect1d(left["step"], right["step"], assume_unique=True, return_indices=True)
    if len(rows) < MIN_COMMON:
        return False
    clocks = [name for name in CLOCKS if all(name in table and table[name].dtype.is_numeric() for table in tables)]
    times = [(left[name].to_numpy()[rows], right[name].to_numpy()[other_rows]) for name in clocks]
    if not all(np.array_equal(mine, others, equal_nan=True) for mine, others in times):
        return False
    known = [np.where(np.isfinite(mine), mine, 0.0) for mine, _ in times]  # nan is unlike itself
    return len({one for one in zip(*known, strict=True) if any(one)}) >= MIN_TIMES
