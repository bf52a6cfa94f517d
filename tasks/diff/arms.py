"""Puts the runs of one arm together: its repeats, its steps at the best precision there is, its fate."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from configs.schema import Frozen
from tasks.diff.step_seconds import PRINTED_UNIT_S, refine_seconds
from tasks.records import (
    ArmSummary,
    CheckpointEvent,
    CheckpointProof,
    Curve,
    Restore,
    RunReading,
    RunRecord,
    Source,
    Stall,
)

STEP_COLUMNS = ["step", "seconds", "loss", "line", "offset"]
RATE = "tokens_per_s_per_device"
METRICS_COLUMNS = {"step", "step_time_s", "loss"}
CPU_COLUMN = "step_cpu_time_s"


class ArmRuns(Frozen):
    """The repeats of one arm, in order, and what holds for all of them."""

    name: str
    label: str
    runs: tuple[RunRecord, ...]

    @property
    def first(self) -> RunRecord:
        """The run that single-run values and logs are taken from."""
        return self.runs[0]

    @property
    def reading(self) -> RunReading:
        """What the first run's log says."""
        return self.first.reading

    @property
    def dead(self) -> RunRecord | None:
        """The first run that did not end well."""
        return next((run for run in self.runs if run.has_died), None)

    def name_run(self, number: int) -> str:
        """How to call the run with this number: by the arm alone where there is only one."""
        return self.label if len(self.runs) == 1 else f"{self.label}, run {number + 1}"


def last_of_each_step(table: pl.DataFrame) -> pl.DataFrame:
    """The rows by ascending step; of a step that was done twice the last one."""
    if (table["step"].diff() > 0).all():  # as most logs are
        return table
    return table.unique("step", keep="last", maintain_order=True).sort("step")


def place_of(steps: pl.DataFrame, index: int = 0, *, run: int = 0) -> Source | None:
    """Where a row of a table of steps stands in the log of the arm's run with this number; None where there is none."""
    if not -steps.height <= index < steps.height or steps["line"][index] is None:
        return None
    return Source(line=steps["line"][index], offset=steps["offset"][index], run=run)


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


def is_exact(run: RunRecord) -> bool:
    """Whether losses are known in full precision, not only as printed."""
    return run.metrics is not None and not run.metrics.is_empty() and set(run.metrics.columns) >= METRICS_COLUMNS


def cpu_seconds(run: RunRecord) -> NDArray[np.float64] | None:
    """The processor time of every step but the first, ascending, in seconds; None if the trainer did not measure it."""
    if run.metrics is None or CPU_COLUMN not in run.metrics.columns:
        return None
    column = last_of_each_step(run.metrics)[CPU_COLUMN].cast(pl.Float64)
    return None if column.null_count() else column.to_numpy()[1:]


def summarise(arm: ArmRuns) -> ArmSummary:
    """The facts of an arm that every surface shows beside its name."""
    dead = arm.dead
    shown = (dead or arm.first).reading
    number = next((number for number, run in enumerate(arm.runs) if run is dead), 0)
    cause = shown.error.model_copy(update={"run": number}) if dead and shown.error else None
    return ArmSummary(
        name=arm.name,
        label=arm.label,
        branch=arm.reading.branch,
        commit=arm.first.commit,
        jax=arm.reading.environment.jax,
        exit_code=shown.exit_code,
        cause_of_death=cause,
        started=arm.reading.started,
        runs=tuple(run.reading.name for run in arm.runs),
        logs=tuple(run.log for run in arm.runs),
        checkpoints=tuple(numbered(e, n) for n, run in enumerate(arm.runs) for e in run.reading.checkpoints),
        restores=tuple(numbered(r, n) for n, run in enumerate(arm.runs) for r in _went_on_from(run.reading)),
        proofs=tuple(numbered(proof, n) for n, run in enumerate(arm.runs) for proof in run.proofs),
        coverage=arm.reading.coverage,
        environment=arm.reading.environment,
        spans=tuple(run.reading.span for run in arm.runs),
    )


def _went_on_from(reading: RunReading) -> tuple[Restore, ...]:
    """What was read back before the last step: the other arm's checkpoints are read after it, as a proof."""
    last = -1 if reading.steps.is_empty() else int(reading.steps["offset"][-1])
    return tuple(restore for restore in reading.restores if restore.offset < last)


def numbered[T: (CheckpointEvent, Restore, CheckpointProof, Stall, Source)](item: T, run: int) -> T:
    """The same, said to be from the run with this number."""
    return item.model_copy(update={"run": run})


def curves_of(arm: ArmRuns) -> list[Curve]:
    """Loss and step time of every run of an arm, point by point with its place in the log."""
    curves = []
    for run in arm.runs:
        table = step_table(run)
        for metric, column in (("loss", "loss"), ("step_time_s", "seconds")):
            curves.append(
                Curve(
                    metric=metric,
                    arm=arm.name,
                    run_name=run.reading.name,
                    steps=tuple(table["step"].to_list()),
                    values=tuple(table[column].to_list()),
                    lines=tuple(table["line"].fill_null(0).to_list()),
                    offsets=tuple(table["offset"].fill_null(0).to_list()),
                )
            )
    return curves
