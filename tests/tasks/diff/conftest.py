"""Run records from a few values: log, metrics file, and the trainer's own proof."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from configs.verdict_rules import load_effects, load_tolerances, make_rules
from tasks.diff.examine.arms import ArmRuns
from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointProof, Problem
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.log_reading import (
    STEP_SCHEMA,
    Coverage,
    DeviceMemory,
    Environment,
    Flops,
    Memory,
    Parameters,
    RunReading,
    Stall,
)
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.records.run_end import LogError
from tasks.records.shared_fields import Source
from tests.sides import compare_sides
from tests.tasks.publish.conftest import make_row, page_000, page_002, record_000, record_002  # noqa: F401  # fixtures

type MakeRun = Callable[..., RunRecord]

SECONDS = (3.0, 0.10, 0.11, 0.10, 0.12, 0.10)
LOSSES = (9.0, 8.5, 8.0, 7.5, 7.25, 7.0)
FIRST_LINE = 100  # of the first step
DEVICE = Environment(jax="0.12.0", jaxlib="0.12.0", backend="tpu", device_kind="TPU v6 lite", num_devices=1)


def build_plan(arm: str, repeat: int, **changes: Any) -> RunPlan:
    fields: dict[str, Any] = {
        "comparison": "linen-vs-nnx", "case": "01_base", "arm": arm, "repeat": repeat, "trainer": "maxview",
        "target": "cpu", "backend": "local", "config": {"steps": 6, "pure_nnx": arm == "nnx"}, "origins": {},
        "commit": "a" * 40, "dirty": False, "versions": {"jax": "0.12.0", "flax": "0.12.12"},
        "environment": {"JAX_PLATFORMS": "cpu"}, "argv": ("python",), "time_limit_s": 60,
        "run_name": f"{arm}-r{repeat}", "directory": f"/out/runs/{arm}-r{repeat}", "identity": f"{arm}{repeat}",
    }  # fmt: skip
    return RunPlan(**(fields | changes))


def build_steps(
    seconds: Sequence[float | None], losses: Sequence[float | None], first: int, extra: Mapping[str, Sequence[Any]]
) -> pl.DataFrame:
    count = len(losses)
    columns: dict[str, Sequence[Any]] = {
        "step": range(first, first + count),
        "seconds": seconds,
        "tflops_per_device": [1.0 / s if s else None for s in seconds],
        "tokens_per_s_per_device": [1000.0 / s if s else None for s in seconds],
        "total_weights": [4096] * count,
        "loss": losses,
        "time": [None] * count,
        "line": range(FIRST_LINE, FIRST_LINE + count),
        "offset": range(10 * FIRST_LINE, 10 * (FIRST_LINE + count), 10),
    }
    return pl.DataFrame({**columns, **extra}, schema_overrides=STEP_SCHEMA, strict=False)


@pytest.fixture
def make_run() -> MakeRun:
    """make_run(arm, …): a run that ended well by default; `reading` and `record` set any further field."""

    def make(
        arm: str = "linen",
        *,
        seconds: Sequence[float | None] = SECONDS,
        losses: Sequence[float | None] = LOSSES,
        first: int = 0,
        exact: Sequence[float] | bool = False,
        plan: Mapping[str, Any] | None = None,
        repeat: int = 0,
        commit: str | None = "c0ffee",
        columns: Mapping[str, Sequence[Any]] | None = None,
        reading: Mapping[str, Any] | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> RunRecord:
        fields: dict[str, Any] = {
            "name": arm, "format": "maxview", "commit": commit, "exit_code": 0,
            "started": "2026-11-18T10:00:00+00:00", "ended": "2026-11-18T10:00:30+00:00",
            "steps": build_steps(seconds[: len(losses)], losses, first, columns or {}),
            "environment": DEVICE,
            "memory": Memory(total_gb=1.5, source=Source(line=50, offset=500), devices=(
                DeviceMemory(device="TPU_0", used_gb=0.43, limit_gb=31.25, percent=1.376, line=60, offset=600),
            )),
            "parameters": Parameters(count=1_104_000_000, printed="1.104 billion", source=Source(line=40, offset=400)),
            "flops": Flops(total_tflops=0.8),
            "stalls": (Stall(
                step=0, seconds=next(iter(seconds), None) or 3.0, cause="compile", line=FIRST_LINE,
                offset=10 * FIRST_LINE,
            ),),
            "coverage": Coverage(step_lines_seen=len(losses), step_lines_parsed=len(losses), complete=True),
        }  # fmt: skip
        values = list(LOSSES) if exact is True else list(exact or ())
        metrics = pl.DataFrame(
            {"step": range(len(values)), "loss": values, "step_time_s": list(SECONDS[: len(values)])}
        )
        return RunRecord(
            **{
                "plan": None if plan is None else build_plan(arm, repeat, **plan),
                "arm": arm,
                "label": f"{arm} · {commit}",
                "commit": commit,
                "log": f"/out/runs/{arm}-r{repeat}/log.txt",
                "reading": RunReading(**(fields | dict(reading or {}))),
                "metrics": metrics if exact else None,
            }
            | dict(record or {})
        )

    return make


@pytest.fixture
def compare() -> Callable[..., ComparisonRecord]:
    """compare(baseline, candidate, …) with one run or several on each side, and the default tolerances."""

    def run(
        baseline: RunRecord | Sequence[RunRecord], candidate: RunRecord | Sequence[RunRecord], **options: Any
    ) -> ComparisonRecord:
        sides = [[side] if isinstance(side, RunRecord) else list(side) for side in (baseline, candidate)]
        given: dict[str, Any] = {
            "tolerances": load_tolerances("default"), "declared": frozenset({"pure_nnx"}), "effects": load_effects(),
        } | options  # fmt: skip
        own = ("aa", "chance", "case", "checkpoints", "turns", "loops", "data", "function")
        rest = {key: given.pop(key) for key in own if key in given}
        rules = make_rules("Same?", **given)
        place: dict[str, Any] = {"comparison": "linen-vs-nnx", "case": "01_base", "target": "cpu"}
        return compare_sides(sides[0], sides[1], rules=rules, **(place | rest))

    return run


@pytest.fixture
def arm_of() -> Callable[..., ArmRuns]:
    """arm_of(run, …): the runs of one arm together."""
    return lambda *runs: ArmRuns(name=runs[0].arm, label=runs[0].label, runs=runs)


@pytest.fixture
def row_of() -> Callable[[ComparisonRecord, str], MetricDiff]:
    """row_of(record, metric): the one row of a metric."""

    def find(record: ComparisonRecord, metric: str) -> MetricDiff:
        (row,) = [row for row in record.rows if row.metric == metric]
        return row

    return find


@pytest.fixture
def died() -> Mapping[str, Any]:
    """The reading of a run that died before its first step."""
    return {
        "exit_code": 1,
        "error": LogError(type="NotImplementedError", message="not yet", line=258, offset=37578),
        "stalls": (),
        "memory": Memory(),
        "parameters": Parameters(),
        "flops": Flops(),
        "coverage": Coverage(complete=True),
    }


@pytest.fixture
def announce() -> Callable[..., dict[str, Any]]:
    """announce({step: committed}): the checkpoint events of a log."""

    def events(steps: Mapping[int, bool | None]) -> dict[str, Any]:
        lines = {step: 200 + n for n, step in enumerate(steps)}
        return {
            "checkpoints": tuple(
                CheckpointEvent(step=step, committed=committed, line=lines[step], offset=10 * lines[step])
                for step, committed in steps.items()
            )
        }

    return events


@pytest.fixture
def prove() -> Callable[..., dict[str, Any]]:
    """prove({step: ok}): the verification of a run's checkpoints."""

    def proofs(steps: Mapping[int, bool]) -> dict[str, Any]:
        problem = Problem(check="ranges", path="d/0", message="d/0 is 3 bytes short")
        return {
            "proofs": tuple(
                CheckpointProof(
                    step=step, path=f"/c/{step}", ok=ok, checks=("commit", "ranges"), problems=() if ok else (problem,)
                )
                for step, ok in steps.items()
            )
        }

    return proofs
