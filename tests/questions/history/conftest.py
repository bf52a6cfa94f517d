"""Nights: hand-built comparisons with their runs in a store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from configs.verdict_rules import load_verdict_rules
from tasks.records.compared_case import ComparisonRecord
from tasks.records.log_reading import STEP_SCHEMA, Coverage, Environment, Memory, RunReading
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.store.store import Store, open_store
from tests.sides import compare_sides


def build_run(store: Store, name: str, *, arm: str, repeat: int, day: int, seconds: float, commit: str) -> RunRecord:
    """Write a run of six steps that began at 03:00 on a day in November."""
    directory = store.run(name).create()
    plan: dict[str, Any] = {
        "comparison": "linen-vs-nnx", "case": "01_base", "arm": arm, "repeat": repeat, "trainer": "maxview",
        "target": "cpu", "backend": "local", "config": {"steps": 6}, "origins": {}, "commit": commit, "dirty": False,
        "versions": {}, "environment": {}, "argv": ("python",), "time_limit_s": 60, "run_name": name,
        "directory": str(directory.path), "identity": name,
    }  # fmt: skip
    steps = pl.DataFrame(
        {
            "step": range(6), "seconds": [3.0, *[seconds] * 5], "tflops_per_device": [1.0] * 6,
            "tokens_per_s_per_device": [9.0] * 6, "total_weights": [4096] * 6, "loss": [9.0, 8.5, 8.0, 7.5, 7.25, 7.0],
            "time": [None] * 6, "line": range(1, 7), "offset": range(0, 60, 10),
        },
        schema_overrides=STEP_SCHEMA,
    )  # fmt: skip
    reading = RunReading(
        name=name,
        format="maxview",
        commit=commit,
        exit_code=0,
        started=f"2026-11-{day:02}T03:00:00+00:00",
        ended=f"2026-11-{day:02}T03:01:00+00:00",
        steps=steps,
        environment=Environment(jax="0.12.0", backend="cpu", num_devices=1),
        memory=Memory(total_gb=1.5),
        coverage=Coverage(step_lines_seen=6, step_lines_parsed=6, complete=True),
    )
    record = RunRecord(
        plan=RunPlan(**plan),
        arm=arm,
        label=f"{arm} · {commit}",
        commit=commit,
        log=str(directory.log),
        reading=reading,
    )
    directory.write_record(record)
    return record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "out")


@pytest.fixture
def night(store: Store) -> Callable[..., ComparisonRecord]:
    """night(day, …): both arms trained and compared; a later call for the same day returns a later comparison."""
    made: list[None] = []

    def compare(
        day: int, *, seconds: float = 0.1, candidate_s: float | None = None, repeats: int = 1, commit: str = "c0ffee1"
    ) -> ComparisonRecord:
        arms = [
            [
                build_run(store, f"n{day}-{arm}-r{n}", arm=arm, repeat=n, day=day, seconds=took, commit=commit)
                for n in range(repeats)
            ]
            for arm, took in (("linen", seconds), ("nnx", candidate_s or seconds))
        ]
        record = compare_sides(
            arms[0],
            arms[1],
            comparison="linen-vs-nnx",
            case="01_base",
            target="cpu",
            rules=load_verdict_rules("linen-vs-nnx", "cpu"),
        )
        made.append(None)
        return record.replace(created=f"2026-11-{day:02}T04:00:{len(made):02}+00:00")

    return compare
