"""Turns what a run left of its steps, its log and its JSON lines, into one table at the best precision there is."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.ingest.step_seconds import PRINTED_UNIT_S, refine_seconds
from tasks.records import RunRecord

STEP_COLUMNS = ["step", "seconds", "loss", "line", "offset"]
RATE = "tokens_per_s_per_device"
METRICS_COLUMNS = {"step", "step_time_s", "loss"}
CPU_COLUMN = "step_cpu_time_s"
WAIT_COLUMN = "step_wait_s"


def step_table(run: RunRecord) -> pl.DataFrame:
    """(step, seconds, loss, line, offset) at the best precision there is, ascending, each step once (its last line).

    The seconds are as fine as the log tells them (see `step_seconds`); they and the losses come out of the trainer's
    JSON lines if it wrote them. A run that resumed after a crash has the steps before it only there: their `line` and
    `offset` are null.
    """
    return timed_steps(run)[0]


def timed_steps(run: RunRecord) -> tuple[pl.DataFrame, float]:
    """The same, with one unit of the last digit that the step times are known to, in seconds; 0 in full precision."""
    printed = last_of_each_step(run.reading.steps)
    if not is_exact(run):
        if RATE not in printed.columns:
            return printed.select(STEP_COLUMNS), PRINTED_UNIT_S
        columns = (printed[name].cast(pl.Float64).to_numpy() for name in ("seconds", RATE))
        seconds, unit = refine_seconds(*columns)
        return printed.select(STEP_COLUMNS).with_columns(pl.Series("seconds", seconds).fill_nan(None)), unit
    assert run.metrics is not None  # is_exact
    exact = last_of_each_step(run.metrics).select(
        pl.col("step").cast(pl.Int64),
        seconds=pl.col("step_time_s").cast(pl.Float64),
        loss=pl.col("loss").cast(pl.Float64),
    )
    return exact.join(printed.select("step", "line", "offset"), on="step", how="left").sort("step"), 0.0


def last_of_each_step(table: pl.DataFrame) -> pl.DataFrame:
    """The rows by ascending step; of a step that was done twice the last one."""
    if (table["step"].diff() > 0).all():  # as most logs are
        return table
    return table.unique("step", keep="last", maintain_order=True).sort("step")


def is_exact(run: RunRecord) -> bool:
    """Whether losses are known in full precision, not only as printed."""
    return run.metrics is not None and not run.metrics.is_empty() and set(run.metrics.columns) >= METRICS_COLUMNS


def waited_seconds(run: RunRecord) -> NDArray[np.float64] | None:
    """The seconds of every step but the first, ascending, that other work on the machine took from its threads.

    None if the trainer did not measure it, which only makes sense where the processor is the device.
    """
    if not is_exact(run) or run.metrics is None or WAIT_COLUMN not in run.metrics.columns:
        return None
    column = last_of_each_step(run.metrics)[WAIT_COLUMN].cast(pl.Float64)
    return None if column.null_count() else column.to_numpy()[1:]


def cpu_seconds(run: RunRecord) -> NDArray[np.float64] | None:
    """The processor time of every step but the first, ascending, in seconds; None if the trainer did not measure it."""
    if run.metrics is None or CPU_COLUMN not in run.metrics.columns:
        return None
    column = last_of_each_step(run.metrics)[CPU_COLUMN].cast(pl.Float64)
    return None if column.null_count() else column.to_numpy()[1:]
