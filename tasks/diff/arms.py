"""Puts the runs of one arm together: its repeats, its steps at the best precision there is, its fate."""

import polars as pl

from configs.schema import Frozen
from tasks.records import ArmSummary, Curve, RunReading, RunRecord


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
        """The first run that did not end well: a non-zero exit code or an exception that ended it."""
        for run in self.runs:
            if run.reading.exit_code not in (0, None) or run.reading.error is not None:
                return run
        return None


def step_table(run: RunRecord) -> pl.DataFrame:
    """(step, seconds, loss, line, offset) of one run, ascending, each step once (its last occurrence).

    Seconds and losses come from the trainer's full-precision lines where it wrote them, else from the log.
    """
    steps = run.reading.steps.unique("step", keep="last", maintain_order=True).sort("step")
    columns = ["step", "seconds", "loss", "line", "offset"]
    table = steps.select([pl.col(c) for c in columns])
    if run.metrics is None or run.metrics.is_empty() or "step" not in run.metrics.columns:
        return table
    exact = run.metrics.unique("step", keep="last", maintain_order=True).select(
        pl.col("step").cast(pl.Int64), pl.col("step_time_s").cast(pl.Float64), pl.col("loss").cast(pl.Float64)
    )
    # a run that resumed after a crash has the steps before it only in the metrics file
    return (
        exact.join(table.drop("seconds", "loss"), on="step", how="left")
        .rename({"step_time_s": "seconds"})
        .select(columns)
        .sort("step")
    )


def is_exact(run: RunRecord) -> bool:
    """Whether losses are known in full precision, not only as printed."""
    return run.metrics is not None and not run.metrics.is_empty()


def summarise(arm: ArmRuns) -> ArmSummary:
    """The facts of an arm that every surface shows beside its name."""
    dead = arm.dead
    shown = (dead or arm.first).reading
    return ArmSummary(
        name=arm.name,
        label=arm.label,
        branch=arm.reading.branch,
        commit=arm.first.commit,
        jax=arm.reading.environment.jax,
        exit_code=shown.exit_code,
        cause_of_death=shown.error,
        started=arm.reading.started,
        runs=tuple(run.reading.name for run in arm.runs),
        logs=tuple(run.log for run in arm.runs),
        checkpoints=tuple(event for run in arm.runs for event in run.reading.checkpoints),
        proofs=tuple(proof for run in arm.runs for proof in run.proofs),
        coverage=arm.reading.coverage,
        environment=arm.reading.environment,
        spans=tuple(run.reading.span for run in arm.runs),
    )


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
