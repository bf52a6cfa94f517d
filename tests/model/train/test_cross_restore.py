"""Continuing another run's checkpoint: proofs, differences, and cases that cannot be tried."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from etils import epath

from configs.schema import TrainConfig
from model.decoder.sharding import make_mesh
from model.train.api import make_api
from model.train.cross_restore import cross_restore
from model.train.step import CompiledStep, Setup, declare_state, lower_step, make_program
from model.train.stop import StopSignal

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


@dataclass(frozen=True)
class Arm:
    """A compiled NNX trainer, ready to continue the Linen run's checkpoint."""

    setup: Setup
    program: CompiledStep

    def cross(self, other: Path, stop: StopSignal | None = None) -> dict[str, Any]:
        return cross_restore(self.setup, self.program, epath.Path(other), stop or StopSignal())


@pytest.fixture(scope="module")
def nnx(mini_config: MiniConfig) -> Arm:
    config = mini_config(pure_nnx=True)
    mesh = make_mesh(config)
    api = make_api(config)
    setup = declare_state(config, api, mesh)
    program = make_program(setup, lower_step(setup))
    return Arm(setup, program)


@pytest.fixture
def other(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the Linen run that a test may damage."""
    copy = tmp_path / "linen"
    shutil.copytree(finished_run, copy)
    program = json.loads((copy / "program.json").read_text("utf-8"))
    program["metrics_file"] = str(copy / "metrics.jsonl")
    (copy / "program.json").write_text(json.dumps(program), "utf-8")
    return copy


def edit_json(path: Path, change: Callable[[dict[str, Any]], object], line: int = 0) -> None:
    lines = path.read_text("utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text("utf-8")]
    record = json.loads(lines[line])
    change(record)
    lines[line] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def test_an_equal_run_holds(nnx: Arm, other: Path) -> None:
    result = nnx.cross(other)
    assert (result["holds"], result["from"], result["implementation"]) == (True, "linen", "linen")
    assert (result["restored_step"], result["steps"]) == (0, 5)


def test_a_moved_run_holds(nnx: Arm, other: Path) -> None:
    edit_json(other / "program.json", lambda record: record.update(metrics_file="/nowhere/metrics.jsonl"))
    assert nnx.cross(other)["holds"] is True


def test_one_bit_of_a_loss_is_a_difference(nnx: Arm, other: Path) -> None:
    edit_json(other / "metrics.jsonl", lambda record: record.update(loss=record["loss"] * (1 + 2e-7)), line=3)
    result = nnx.cross(other)
    assert (result["holds"], result["steps"]) == (False, 3)
    assert result["evidence"].startswith("step 3: loss ")


def test_one_array_of_the_final_state_is_a_difference(nnx: Arm, other: Path) -> None:
    path = "params/params/token_embedder/embedding"

    def change(record: dict[str, Any]) -> None:
        record["state"]["arrays"][path] = "0" * 16
        record["state"]["digest"] = "0" * 64

    edit_json(other / "program.json", change)
    result = nnx.cross(other)
    assert result["holds"] is False
    assert result["evidence"].endswith(f"1 arrays differ at the end, first {path}")


def test_a_run_that_ended_early_is_unknown(nnx: Arm, other: Path) -> None:
    lines = (other / "metrics.jsonl").read_text("utf-8").splitlines()
    (other / "metrics.jsonl").write_text("\n".join(lines[:4]) + "\n", "utf-8")
    result = nnx.cross(other)
    assert (result["holds"], result["evidence"]) == (None, "the other run's metrics have no step 4")


@pytest.mark.parametrize(
    ("remove", "reason"),
    [
        ("program.json", "has no program.json"),
        ("checkpoints", "has no checkpoints"),
        ("checkpoints/*", "has no committed checkpoint"),
        ("checkpoints/0/items/_METADATA", "absent there"),
        ("metrics.jsonl", "could not be tried: FileNotFoundError"),
    ],
)
def test_an_incomplete_run_is_unknown(remove: str, reason: str, nnx: Arm, other: Path) -> None:
    for path in other.glob(remove):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    result = nnx.cross(other)
    assert result["holds"] is None
    assert reason in result["evidence"]


def test_another_model_is_unknown(other: Path, nnx: Arm, mini_config: MiniConfig) -> None:
    config = mini_config(base_mlp_dim=64)
    api = make_api(config)
    result = Arm(declare_state(config, api, nnx.setup.mesh), nnx.program).cross(other)
    assert result["holds"] is None
    assert "wi_0/kernel is float32[16, 2, 64] here and float32[16, 2, 32] there" in result["evidence"]


def test_sigterm_ends_it(nnx: Arm, other: Path) -> None:
    result = nnx.cross(other, StopSignal(arrived=True))
    assert (result["holds"], result["evidence"]) == (None, "stopped by SIGTERM before step 1")


def test_the_other_run_is_unchanged(nnx: Arm, other: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in other.rglob("*")}
    nnx.cross(other)
    assert {path: path.stat().st_mtime_ns for path in other.rglob("*")} == before
