"""Defines an arm (the runs of one of the two compared versions), and computes its summary, curves and time accounts."""

import polars as pl

from configs.frozen import Frozen
from tasks.metrics.compute_facts import facts_of_run
from tasks.metrics.merged_steps import step_table, waited_per_step
from tasks.metrics.result_metrics import LOSS
from tasks.metrics.time_account import is_steady
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.checkpoint_proof import Restore
from tasks.records.compared_case import ArmSummary, Curve
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tasks.records.run_facts import RunFacts, TimeAccount
from tasks.resolve.trainers import trainer_class


class ArmRuns(Frozen):
    """The runs of one side of a comparison, in the order in which they ran."""

    name: str  # in records and files, e.g. "nnx"
    label: str  # for users: name and commit
    runs: tuple[RunRecord, ...]
    counts_from: int = 0  # 1 if `runs` were renumbered from 0 because their logs count from 1; else 0

    @property
    def first(self) -> RunRecord:
        """The first run; used wherever one run represents the arm."""
        return self.runs[0]

    @property
    def reading(self) -> RunReading:
        """The parsed log of the first run."""
        return self.first.reading

    @property
    def dead(self) -> RunRecord | None:
        """The first run that died; None if none did."""
        return next((run for run in self.runs if run.has_died), None)

    @property
    def facts(self) -> tuple[RunFacts, ...]:
        """The facts (metric values, step time levels) of each run."""
        return tuple(map(facts_of_run, self.runs))

    def name_run(self, number: int) -> str:
        """Return the name of a run for messages: the arm's label, and a number from 1 if the arm has several runs.

        number: counts from 0.
        """
        return self.label if len(self.runs) == 1 else f"{self.label}, run {number + 1}"


type Arms = tuple[ArmRuns, ArmRuns]  # the baseline, the candidate


def summarise(arm: ArmRuns) -> ArmSummary:
    """Return the arm's summary for pages and commands.

    Error and exit code are those of the first run that died; if no run died, the exit code is that of the first run.
    """
    dead, plan = arm.dead, arm.first.plan
    shown = (dead or arm.first).reading
    number = next((number for number, run in enumerate(arm.runs) if run is dead), 0)
    cause = shown.error.replace(run=number) if dead and shown.error else None
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
        restores=tuple(numbered(r, n) for n, run in enumerate(arm.runs) for r in _resumed_from(run.reading)),
        proofs=tuple(numbered(proof, n) for n, run in enumerate(arm.runs) for proof in run.proofs),
        coverage=arm.reading.coverage,
        environment=arm.reading.environment,
        spans=tuple(run.reading.span for run in arm.runs),
        attention=plan and trainer_class(plan.trainer).describe_attention(plan),
    )


def _resumed_from(reading: RunReading) -> tuple[Restore, ...]:
    """Return the restores before the last step. Later ones only test the other arm's checkpoints."""
    last = -1 if reading.steps.is_empty() else int(reading.steps["offset"][-1])
    return tuple(restore for restore in reading.restores if restore.offset < last)


def numbered[T: Frozen](item: T, run: int) -> T:
    """Return a copy of a record from a log with the number of its run in the arm, from 0."""
    return item.replace(run=run)


def know_waits(arms: Arms) -> bool:
    """Return whether every run measured its waits for other programs; then the judged step times are without them."""
    return all(waited_per_step(run) is not None for arm in arms for run in arm.runs)


def curves_of(arm: ArmRuns, *, less_waits: bool) -> list[Curve]:
    """Return the loss and step time curves of every run, with each point's line and offset in the log (0: unknown).

    less_waits: see `know_waits`. The curve of the step time has the judged values.
    """
    return [
        Curve(
            metric=metric,
            arm=arm.name,
            run_name=run.reading.name,
            steps=tuple(table["step"].to_list()),
            values=tuple(values),
            lines=tuple(table["line"].fill_null(0).to_list()),
            offsets=tuple(table["offset"].fill_null(0).to_list()),
        )
        for run, table in zip(arm.runs, map(step_table, arm.runs), strict=True)
        for metric, values in (
            (LOSS.curve, table["loss"].to_list()),
            (STEP_TIME.curve, _judged_seconds(run, table, less_waits=less_waits)),
        )
    ]


def _judged_seconds(run: RunRecord, table: pl.DataFrame, *, less_waits: bool) -> list[float | None]:
    waited = waited_per_step(run) if less_waits else None
    if waited is None:
        return table["seconds"].to_list()
    return (table["seconds"] - pl.Series([0.0, *waited])).to_list()


def times_of(arm: ArmRuns) -> list[TimeAccount]:
    """Return the time accounts of the runs with enough steps; if none has enough, those of the dead runs."""
    accounts = []
    for number, (run, facts) in enumerate(zip(arm.runs, arm.facts, strict=True)):
        if account := facts.account:
            parts = [(part, part.source and numbered(part.source, number)) for part in account.parts]
            changes = {"parts": tuple(part.replace(source=place) for part, place in parts)}
            accounts.append(account.replace(**(changes | {"arm": arm.name, "run_name": run.reading.name})))
    return [account for account in accounts if is_steady(account)] or accounts
