"""Converts a comparison and its run records to rows of the history table: one row per run and metric.

A role is the side of an arm in its comparison: baseline or candidate.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePath
from typing import Any, Literal

import polars as pl

from configs.comparison import load_comparison
from configs.load import ConfigError
from configs.read import CONFIG_ROOT
from tasks.diff.examine.setting_differences import own_config
from tasks.metrics.compute_facts import facts_of_run
from tasks.metrics.merged_steps import step_table
from tasks.metrics.metric import Metric
from tasks.metrics.table import METRICS
from tasks.records.compared_case import ArmSummary, ComparisonRecord, MetricDiff
from tasks.records.run import RunRecord
from tasks.resolve.git import GitError, run_git

type Role = Literal["baseline", "candidate"]

_SHA = re.compile(r"[0-9a-f]{7,64}")
UTC_TIME = pl.Datetime("us", "UTC")
HISTORY_SCHEMA: dict[str, Any] = {
    "comparison_id": pl.String,  # "run-<name>" for a run outside of any comparison
    "created": UTC_TIME,  # time of the comparison; for a run outside of any comparison, its start or null
    "time": UTC_TIME,  # start of the run according to its log; `created` if the log has no start
    "comparison": pl.String,  # name of the comparison, such as "linen-vs-nnx"
    "case": pl.String,
    "target": pl.String,
    "arm": pl.String,
    "role": pl.String,  # "baseline" or "candidate"; null: unknown
    "commit": pl.String,
    "commit_time": UTC_TIME,  # null if the commit is unknown, or missing in maxview's own checkout
    "repeat": pl.Int64,  # number of the run within its arm, from 0
    "run": pl.String,  # name of the run's folder in the store
    "metric": pl.String,
    "unit": pl.String,
    "better": pl.String,  # "higher", "lower" or "equal"
    "value": pl.Float64,  # value of this run or, if it only compiled, of its program
    "samples": pl.Int64,  # number of measurements behind the value, such as steps
    "error": pl.Float64,  # relative standard error, from the spread of the run's steps; null: unknown
    "verdict": pl.String,  # the comparison's verdict on this metric; null: none
    "same_program": pl.Boolean,  # the arms' programs and host code are proved equal: time differences are noise
    "jax": pl.String,
    "pair": pl.String,  # "main → feat/x": git refs, else names, of the arms; null outside of any comparison
    "alike": pl.String,  # `alike_hash`, which is the same for equal ingested runs; null: compare arm and commit
}

type Row = dict[str, Any]


def history_rows(record: ComparisonRecord, runs: Sequence[RunRecord]) -> pl.DataFrame:
    """Return one row per run and metric of a comparison, in HISTORY_SCHEMA, without runs that died."""
    verdicts = {row.metric: row.verdict for row in record.rows}
    # the verdict on a time metric covers both of its levels: all typical steps, and the quick (steady) ones
    verdicts |= {metric.quick: verdicts[metric.name] for metric in METRICS if metric.quick and metric.name in verdicts}
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
                "alike": alike_hash(run, record, role),
                "pair": f"{record.baseline.ref} → {record.candidate.ref}",
            }
            values = program_values(record, role) if record.programs else run_values(run)
            rows += [row | {"verdict": verdicts.get(row["metric"])} for row in _run_rows(run, common, values)]
    return pl.DataFrame(rows, schema=HISTORY_SCHEMA)


def alike_hash(run: RunRecord, record: ComparisonRecord, role: Role) -> str | None:
    """Return a hash that is equal for ingested runs whose values should differ only by noise.

    The hash covers the role, the commit, and the log's format, environment, number of parameters, FLOPs and settings.
    It does not cover the arm's name, which is arbitrary for ingested logs. In an A/A control, the hash does not cover
    the role, and needs no commit. None for runs with a plan, and for runs without a commit outside of a control.
    """
    if run.plan is not None or (run.commit is None and not record.aa):
        return None
    reading = run.reading
    facts = {
        "side": "control" if record.aa else role,
        "commit": run.commit or f"of {record.id}",
        "format": reading.format,
        "environment": reading.environment.model_dump(exclude={"process_index", "place"}),
        "parameters": reading.parameters.count,
        "flops": reading.flops.total_tflops,
        "config": own_config(run),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def lone_run_rows(run: RunRecord) -> pl.DataFrame:
    """Return the rows of a run outside of any comparison; none for runs that died, only compile or have no plan."""
    if (
        run.plan is None or not run.plan.work.has_steps or run.has_died
    ):  # values of compilations come from their comparison
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
    return pl.DataFrame(list(_run_rows(run, common, run_values(run))), schema=HISTORY_SCHEMA)


def _run_rows(run: RunRecord, common: Row, values: Iterable[Row]) -> Iterator[Row]:
    of_run = common | {
        "time": parse_time(run.reading.started) or common["created"],
        "arm": run.arm,
        "commit": run.commit,
        "commit_time": _find_commit_time(run.commit) if run.commit else None,
        "run": folder_name(run),
        "jax": run.reading.environment.jax,
    }
    for value in values:
        yield of_run | value


def program_values(record: ComparisonRecord, role: Role) -> Iterator[Row]:
    """Yield metric columns (`_make_value`) for each value of one arm's compiled program that the comparison judged."""
    for row in record.rows:
        value = row.baseline if role == "baseline" else row.candidate
        if value is not None and row.verdict != "not judged":
            yield _make_value(row.metric, row, value)


def run_values(run: RunRecord) -> Iterator[Row]:
    """Yield metric columns (`_make_value`) for each value of a run that the history stores, in the order of METRICS."""
    facts = facts_of_run(run)
    for metric in METRICS:
        if levels := facts.levels.get(metric.name):
            samples = step_table(run).height - 1
            for name, level in ((metric.name, levels.middle), (metric.quick, levels.quick)):
                yield _make_value(name, metric, level.seconds, samples, level.error)
        elif metric.trend and (one := facts.values.get(metric.name)) and one.value is not None:
            yield _make_value(metric.name, metric, one.value, one.samples)


def _make_value(name: str, of: Metric | MetricDiff, value: float, samples: int = 1, error: float | None = None) -> Row:
    return {
        "metric": name, "unit": of.unit, "better": of.better, "value": value, "samples": samples, "error": error,
    }  # fmt: skip


def folder_name(run: RunRecord) -> str:
    """Return the name of the run's folder in the store, which is unique; the name in the run's log may not be."""
    return PurePath(run.log).parent.name


def parse_time(text: str | None) -> datetime | None:
    """Return an ISO 8601 time in UTC (without a zone, UTC is assumed); None for any other text."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # the text is from a log and may be anything
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


@cache
def _role_of(comparison: str, arm: str) -> Role | None:
    try:
        arms = [side.name for side in load_comparison(comparison).arms]
    except ConfigError:  # the comparison's file has been deleted
        return None
    roles: dict[str, Role] = {arms[0]: "baseline", arms[1]: "candidate"}
    return roles.get(arm)


@cache
def _find_commit_time(commit: str) -> datetime | None:
    """Return the time of a commit in maxview's own checkout, in UTC; None without the commit or the checkout."""
    root = CONFIG_ROOT.parent
    if not _SHA.fullmatch(commit) or not (root / ".git").exists():
        return None
    try:
        seconds = run_git(["show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}"], folder=root)
    except GitError:
        return None
    return datetime.fromtimestamp(int(seconds), UTC)
