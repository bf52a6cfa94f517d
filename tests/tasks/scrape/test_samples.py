"""Logs of our own real runs, against what their trainers wrote down beside them in full."""

import json
import math
from pathlib import Path

import pytest

from tasks.records import RunReading
from tasks.scrape import scrape_run

SAMPLES = Path(__file__).parents[2] / "samples"
NAMES = ("13_eval-linen", "13_eval-nnx", "dies-nnx")


def read(name: str) -> RunReading:
    return scrape_run(SAMPLES / "maxview" / f"{name}.txt")


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_as_the_trainer_wrote_it_down(name: str) -> None:
    run = read(name)
    lines = (SAMPLES / "maxview" / f"{name}.metrics.jsonl").read_text().splitlines()
    written = [json.loads(line) for line in lines]
    written = [row for row in written if math.isfinite(float(row["loss"]))]  # a run ends before it logs another one
    rows = [row for row in run.steps.iter_rows(named=True) if math.isfinite(row["loss"])]
    assert [row["step"] for row in rows] == [row["step"] for row in written]
    assert [f"{row['loss']:.3f}" for row in rows] == [f"{row['loss']:.3f}" for row in written]
    assert [row["total_weights"] for row in rows] == [row["total_weights"] for row in written]
    # the log names milliseconds of the same clock
    seconds = [(row["seconds"], row["step_time_s"]) for row in (a | b for a, b in zip(written, rows, strict=True))]
    assert all(abs(printed - full) <= 0.0005 + 1e-9 for printed, full in seconds)
    assert run.coverage.step_lines_seen == run.coverage.step_lines_parsed == run.steps.height
    assert not run.coverage.gaps


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_run_that_finished(name: str) -> None:
    run = read(name)
    assert (run.exit_code, run.fate, run.error) == (0, "finished", None)
    assert run.coverage.complete
    assert [one["step"] for one in run.evals] == [4, 9]
    assert [(save.step, save.committed) for save in run.checkpoints] == [(0, True), (11, True)]
    assert run.environment.num_devices == 1
    assert run.parameters is not None
    assert run.config["pure_nnx"] == str(name == "13_eval-nnx")


def test_a_run_that_died() -> None:
    run = read("dies-nnx")
    assert run.exit_code == 1
    assert run.error is not None
    assert (run.fate, run.error.kind) == ("nan", "nan")
    lines = (SAMPLES / "maxview" / "dies-nnx.txt").read_text().splitlines()
    said = lines[(run.error.line or 0) - 1]
    assert said.startswith("NonFiniteLoss: step 2: the loss is nan; lower learning_rate")  # with what to do
    assert said == f"{run.error.type}: {run.error.message}"
    assert run.steps["step"].to_list() == [0, 1, 2]
    assert math.isnan(run.steps["loss"][2])
