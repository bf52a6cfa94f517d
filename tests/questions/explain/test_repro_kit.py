"""The repro kit of two small steps: it runs with jax alone, in a separate process, and shows the difference."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from questions.explain.explain_arms import ObservedArm
from questions.explain.repro_kit import write_kit
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan

pytestmark = pytest.mark.flows

X = np.linspace(0.1, 1, 12, dtype=np.float32).reshape(3, 4)
HALF = np.asarray(X, jnp.bfloat16)


def observed(folder: Path, name: str, step: Callable[..., Any], devices: int = 1) -> ObservedArm:
    """The files of an observed step that the kit needs."""
    folder.mkdir()
    lowered = jax.jit(step).lower({"w": X, "unused": X}, HALF)
    (folder / "step.mlir.gz").write_bytes(gzip.compress(lowered.as_text(debug_info=True).encode()))
    names = ["0000|state['unused']", "0001|state['w']", "0002|half"]
    np.savez(folder / "arguments.npz", **dict(zip(names, (X, X, HALF.view(np.uint16)), strict=True)))
    observation = Observation(arm=name, step="step", devices=devices, software={"jax": jax.__version__})
    return ObservedArm(cast(RunPlan, None), name, folder, observation)


def step_of(factor: float) -> Callable[..., Any]:
    def step(state: dict[str, jax.Array], half: jax.Array) -> dict[str, jax.Array]:
        return {"same": state["w"] + 1, "other": factor * state["w"] * half}

    return step


def run(kit: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    argv = [sys.executable, "-I", str(kit)]
    return subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_the_kit_shows_the_differing_result(tmp_path: Path) -> None:
    arms = observed(tmp_path / "a", "a", step_of(1.0)), observed(tmp_path / "b", "b", step_of(3.0))
    done = run(write_kit(arms, tmp_path / "kit"))
    assert done.returncode == 1, done.stderr
    assert "1 of 2 results are equal bit for bit" in done.stdout
    largest = float(np.abs(2 * X * HALF.astype(np.float32)).max())  # 3·w·half − 1·w·half
    line = next(line for line in done.stdout.splitlines() if "values differ" in line)
    assert "['other']: 12 of 12 values differ" in line
    assert float(line.rpartition("by ")[2].split()[0]) == pytest.approx(largest, rel=1e-5)
    kit = json.loads((tmp_path / "kit" / "kit.json").read_text())
    assert [kind for _, kind in kit["arguments"]["baseline"]] == ["f32", "bf16"]  # JAX drops unused values


def test_equal_steps_are_equal_in_the_kit(tmp_path: Path) -> None:
    arms = observed(tmp_path / "a", "a", step_of(1.0)), observed(tmp_path / "b", "b", step_of(1.0))
    done = run(write_kit(arms, tmp_path / "kit"))
    assert done.returncode == 0, done.stderr
    assert "2 of 2 results are equal bit for bit" in done.stdout


def test_a_step_on_several_devices_has_no_kit(tmp_path: Path) -> None:
    arms = observed(tmp_path / "a", "a", step_of(1.0), devices=8), observed(tmp_path / "b", "b", step_of(1.0))
    with pytest.raises(ValueError, match="the step of a runs on 8 devices"):
        write_kit(arms, tmp_path / "kit")
    assert not (tmp_path / "kit").exists()


def test_an_argument_that_was_not_recorded_is_named(tmp_path: Path) -> None:
    arms = observed(tmp_path / "a", "a", step_of(1.0)), observed(tmp_path / "b", "b", step_of(1.0))
    np.savez(tmp_path / "b" / "arguments.npz", **{"0000|half": X})
    with pytest.raises(ValueError, match=r"state\['w'\] of the step was not recorded"):
        write_kit(arms, tmp_path / "kit")
