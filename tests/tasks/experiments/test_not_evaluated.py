"""A pair of steps that cannot be evaluated in float64 gets one sentence, and no exception."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.experiments import run_inside, same_function
from tasks.experiments.recordings import IDENTITY
from tasks.experiments.same_function import compare_functions
from tasks.records import FunctionComparison, Observation, RunPlan
from tasks.records.observation import ObservedArray

type Compare = Callable[..., FunctionComparison]


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """compare(program): two recordings with this program's text; None: the program was not kept."""

    def make(program: str | None, *, shape: tuple[int, ...] = (2,)) -> FunctionComparison:
        plans = []
        for side in ("baseline", "candidate"):
            folder = tmp_path / side
            folder.mkdir()
            argument = ObservedArray(name="params['w']", role="parameter", meaning="w", shape=shape, dtype="float32")
            found = Observation(step="train_step", platform="cpu", devices=1, arguments=(argument,))
            (folder / "observation.json").write_text(found.model_dump_json())
            (folder / IDENTITY).write_text(side)
            np.savez(folder / "arguments.npz", **{"0|params['w']": np.ones(2, np.float32)})
            if program is not None:
                (folder / "step.mlir.gz").write_bytes(gzip.compress(program.encode()))
            plans.append(make_plan(side))
        return compare_functions((plans[0], plans[1]), ("main", "feat/x"), tmp_path)

    return make


def make_plan(arm: str) -> RunPlan:
    fields: dict[str, Any] = {
        "comparison": "main-vs-branch", "case": "01_base", "arm": arm, "repeat": 0, "trainer": "maxview",
        "target": "cpu", "backend": "local", "config": {"steps": 6}, "origins": {}, "commit": None, "dirty": False,
        "versions": {}, "environment": {"JAX_PLATFORMS": "cpu"}, "argv": (sys.executable,), "time_limit_s": 60,
        "run_name": arm, "directory": f"/out/runs/{arm}", "identity": arm,
    }  # fmt: skip
    return RunPlan(**fields)


def test_a_program_that_was_not_kept(compare: Compare) -> None:
    found = compare(None)
    assert (found.answer, found.sentence) == (
        "not evaluated",
        "not evaluated: baseline: its program was not kept (step.mlir.gz is missing)",
    )


def test_a_program_that_this_jax_cannot_parse(compare: Compare) -> None:
    found = compare("module { func.func @main( }")
    assert found.sentence == "not evaluated: baseline: the program cannot be parsed by this JAX"


def test_arguments_that_are_damaged(compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive lost its end, as on a full disk."""
    write = np.savez

    def damage(file: Path, **arrays: Any) -> None:
        write(file, **arrays)
        file.write_bytes(file.read_bytes()[:-30])

    monkeypatch.setattr(np, "savez", damage)
    assert compare("module {}").sentence == (
        "not evaluated: baseline: the recorded step cannot be read: File is not a zip file"
    )


def test_too_little_memory_is_said_before_with_its_size(compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of 2^27 floats takes 1 GiB in float64, and twelve such arrays exist at once."""
    memory = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=6 << 30))
    monkeypatch.setattr(same_function, "psutil", memory)
    assert compare("", shape=(1 << 27,)).sentence == (
        "not evaluated: float64 needs about 12.0 GiB of memory, 6.0 GiB are free: choose a smaller model with --model"
    )


def test_a_killed_evaluation(compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import os, signal\nprint('progress: compiling', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setattr(run_inside, "START", script)
    assert compare("").sentence == (
        "not evaluated: the evaluation was killed by signal 9, as when memory runs out (compiling)"
    )
