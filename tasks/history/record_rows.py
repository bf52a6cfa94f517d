"""Turns a comparison and its run records into the rows of the history: one per run and metric."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePath
from typing import Any, Literal

import polars as pl

from configs.comparison import load_comparison
from configs.load import ConfigError
from configs.schema import Frozen
from tasks.diff.maxview_rows import READERS
from tasks.diff.settings import own_config
from tasks.diff.state_rows import program_gb
from tasks.diff.step_time_levels import find_levels
from tasks.diff.time_account import account_run, is_stall
from tasks.diff.time_rows import QUICK, steady_levels
from tasks.ingest.merged_steps import cpu_seconds, timed_steps
from tasks.records import ArmSummary, Better, ComparisonRecord, RunRecord

type Role = Literal["baseline", "candidate"]

UTC_TIME = pl.Datetime("us", "UTC")
HISTORY_SCHEMA: dict[str, Any] = {
    "comparison_id": pl.String,  # "run-<name>" for a run that no comparison holds
    "created": UTC_TIME,  # of the comparison
    "time": UTC_TIME,  # when the run began, as its log says; the comparison's where it does not
    "comparison": pl.String,
    "case": pl.String,
    "target": pl.String,
    "arm": pl.String,
    "role": pl.String,  # "baseline" or "candidate"
    "commit": pl.String,
    "commit_time": UTC_TIME,
    "repeat": pl.Int64,
    "run": pl.String,  # its folder in the store
    "metric": pl.String,
    "unit": pl.String,
    "better": pl.String,
    "value": pl.Float64,  # of this run alone
    "samples": pl.Int64,  # how many steps the value is made of
    "error": pl.Float64,  # what the run's own steps leave open of the value, as a share of it; null: not known
    "verdict": pl.String,  # of the comparison's row; null where there is none
    "same_program": pl.Boolean,  # the comparison proved that both arms run one program from one source
    "jax": pl.String,
    "pair": pl.String,  # "main → feat/x": the refs or arms of both sides, without their commits
    "alike": pl.String,  # of ingested runs: those with one word should be equal; null: those of one arm at one commit
}

type CommitTime = Callable[[str], datetime | None]


class Value(Frozen):
    """One number of one run, under the name that its row in a comparison has."""

    metric: str
    unit: str
    better: Better
    value: float
    samples: int = 1
    error: float | None = None


def history_rows(
    record: ComparisonRecord, runs: Sequence[RunRecord], *, commit_time: CommitTime = lambda commit: None
) -> pl.DataFrame:
    """One row per run of the comparison and metric that the run has a number for, in HISTORY_SCHEMA.

    What a run did until it died says nothing of a trend: it has no row.
    """
    verdicts = {row.metric: row.verdict for row in record.rows}
    verdicts |= {QUICK[row.metric]: row.verdict for row in record.rows if row.metric in QUICK}  # two levels, one word
    same_program = bool(record.equal_by_construction)
    created = parse_time(record.created)
    rows = []
    sides: tuple[tuple[Role, ArmSummary], ...] = (("baseline", record.baseline), ("candidate", record.candidate))
    for role, arm in sides:
        for repeat, run in enumerate(run for run in runs if run.arm == arm.name):
            if run.has_died:
                continue
            common = {
                "comparison_id": record.id,
                "created": created,
                "comparison": record.comparison,
                "case": record.case,
                "target": record.target,
                "role": role,
                "repeat": run.plan.repeat if run.plan else repeat,
                "same_program": same_program,
                "alike": alike_word(run, record, role),
                "pair": f"{record.baseline.ref} → {record.candidate.ref}",
            }
            values = program_values(record, role) if record.programs else run_values(run)
            rows += [
                row | {"verdict": verdicts.get(row["metric"])} for row in _run_rows(run, common, values, commit_time)
            ]
    return pl.DataFrame(rows, schema=HISTORY_SCHEMA)


def alike_word(run: RunRecord, record: ComparisonRecord, role: Role) -> str | None:
    """What ingested runs have in common that should be equal but for noise; None for runs with a plan.

    The arms of two ingests are called as their logs happen to be, and settings that the log does not print may differ
    between the two arms of one. So: runs of one side, or of controls, at one commit, with everything else that their
    logs say of what was run. Without a commit only the two runs of a control are known to be of one.
    """
    if run.plan is not None or (run.commit is None and not record.aa):
        return None
    reading = run.reading
    facts = {
        "side": "control" if record.aa else role,
        "commit": run.commit or f"of {record.id}",
        "format": reading.format,
        "environment": reading.environment.model_dump(exclude={"process_index"}),
        "parameters": reading.parameters.count,
        "flops": reading.flops.total_tflops,
        "config": own_config(run),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def lone_run_rows(run: RunRecord, *, commit_time: CommitTime = lambda commit: None) -> pl.DataFrame:
    """The rows of a run that no comparison holds, out of its plan; empty for an ingested log, which has none, and for
    one that died."""
    if run.plan is None or run.plan.compiles_for or run.has_died:  # of a compile only its comparison knows
        return pl.DataFrame(schema=HISTORY_SCHEMA)
    plan = run.plan
    common = {
        "comparison_id": f"run-{plan.run_name}",
        "created": parse_time(run.reading.started),
        "comparison": plan.comparison,
        "case": plan.case,
        "target": plan.target,
        "role": _role_of(plan.comparison, plan.arm),
        "repeat": plan.repeat,
        "same_program": False,
        "verdict": None,
        "alike": None,
        "pair": None,
    }
    return pl.DataFrame(list(_run_rows(run, common, run_values(run), commit_time)), schema=HISTORY_SCHEMA)


def _run_rows(
    run: RunRecord, common: dict[str, Any], values: Iterable[Value], commit_time: CommitTime
) -> Iterator[dict[str, Any]]:
    of_run = common | {
        "time": parse_time(run.reading.started) or common["created"],
        "arm": run.arm,
        "commit": run.commit,
        "commit_time": commit_time(run.commit) if run.commit else None,
        "run": folder_name(run),
        "jax": run.reading.environment.jax,
    }
    for value in values:
        yield of_run | value.model_dump()


def program_values(record: ComparisonRecord, role: Role) -> Iterator[Value]:
    """What is judged of one side's compiled program, out of its comparison."""
    for row in record.rows:
        value = row.baseline if role == "baseline" else row.candidate
        if value is not None and row.verdict != "not judged":
            yield Value(metric=row.metric, unit=row.unit, better=row.better, value=value)


def run_values(run: RunRecord) -> Iterator[Value]:
    """Every number that one run alone gives: what the rows of a comparison are made of."""
    table = timed_steps(run)[0]
    exact = program_gb(run)
    memory = run.reading.memory.total_gb if exact is None else exact
    used = cpu_seconds(run)
    clocks = {"step_time": steady_levels(run), "step_cpu_time": None if used is None else find_levels(used)}
    for name, levels in clocks.items():
        if levels is None:
            continue
        for clock, level in ((f"{name}_s", levels.middle), (f"{name}_quick_s", levels.quick)):
            yield Value(
                metric=clock,
                unit="s",
                better="lower",
                value=level.seconds,
                samples=table.height - 1,
                error=level.error,
            )
    if account := account_run(run):
        lost = sum(part.seconds for part in account.parts if is_stall(part))
        yield Value(metric="stall_s", unit="s", better="lower", value=lost, samples=table.height - 1)
    if table.height and table["seconds"][0] is not None:
        yield Value(metric="first_step_s", unit="s", better="lower", value=table["seconds"][0])
    if memory is not None:
        yield Value(metric="program_memory_gb", unit="GB", better="lower", value=memory)
    for reader in READERS:
        value, metric = reader.read(run.reading).value, reader.metric
        if value is not None:
            yield Value(metric=metric.name, unit=metric.unit, better=metric.better, value=value)


def folder_name(run: RunRecord) -> str:
    """The run's folder in the store: unlike the name in its log, no other run has it."""
    return PurePath(run.log).parent.name


def parse_time(text: str | None) -> datetime | None:
    """An ISO 8601 moment in UTC (without a zone it is taken for UTC); None for anything else."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # a log may say anything
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


@cache
def _role_of(comparison: str, arm: str) -> Role | None:
    try:
        arms = [side.name for side in load_comparison(comparison).arms]
    except ConfigError:  # its file is gone, years later
        return None
    roles: dict[str, Role] = {arms[0]: "baseline", arms[1]: "candidate"}
    return roles.get(arm)
