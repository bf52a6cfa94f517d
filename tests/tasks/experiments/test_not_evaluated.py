"""A pair of steps that cannot be evaluated in float64 gets one sentence, and no exception."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tasks.experiments import kept_recordings, run_inside, same_function
from tasks.experiments.same_function import compare_functions
from tasks.observe.recorder import read_observation
from tasks.records.function import FunctionComparison
from tasks.records.observation import Observation, ObservedArray
from tasks.records.plan import RunPlan
from tests.wording.sentences import Wording

type Compare = Callable[..., FunctionComparison]


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """compare(program): two recordings with this program's text; None: the program was not kept."""

    monkeypatch.setattr(kept_recordings, "is_current", lambda *_, **__: True)

    def make(program: str | None, *, shape: tuple[int, ...] = (2,)) -> FunctionComparison:
        plans = []
        for side in ("baseline", "candidate"):
            folder = tmp_path / side
            folder.mkdir()
            argument = ObservedArray(name="params['w']", role="parameter", meaning="w", shape=shape, dtype="float32")
            found = Observation(step="train_step", platform="cpu", devices=1, arguments=(argument,))
            (folder / "observation.json").write_text(found.model_dump_json())
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


def test_a_program_that_was_not_kept(compare: Compare, wording: Wording) -> None:
    found = compare(None)
    assert found.answer == "not evaluated"
    assert "baseline: " in found.sentence
    assert "step.mlir.gz" in found.sentence
    wording("reasons", found.sentence)


def test_a_program_that_this_jax_cannot_parse(compare: Compare, wording: Wording) -> None:
    found = compare("module { func.func @main( }")
    assert (found.answer, "baseline: " in found.sentence) == ("not evaluated", True)
    wording("reasons", found.sentence)


def test_arguments_that_are_damaged(
    compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """The archive lost its end, as on a full disk."""
    write = np.savez

    def damage(file: Path, **arrays: Any) -> None:
        write(file, **arrays)
        file.write_bytes(file.read_bytes()[:-30])

    monkeypatch.setattr(np, "savez", damage)
    found = compare("module {}")
    assert found.answer == "not evaluated"
    assert "File is not a zip file" in found.sentence
    wording("reasons", found.sentence, FOLDER=tmp_path.name)


def test_a_record_that_is_damaged(compare: Compare, tmp_path: Path, wording: Wording) -> None:
    compare("module {}")
    (tmp_path / "baseline" / "observation.json").write_text("{")
    (why,) = read_observation(tmp_path / "baseline").notes
    assert "is no record of a step" in why
    wording("reasons", why, FOLDER=tmp_path)


def test_too_little_memory_is_said_before_with_its_size(
    compare: Compare, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    """A state of 2^27 floats takes 1 GiB in float64: twelve such arrays at once, and eight on the running device."""
    memory = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=6 << 30))
    monkeypatch.setattr(same_function, "psutil", memory)
    sentence = compare("", shape=(1 << 27,)).sentence
    for part in (" 20.0 GiB ", " 6.0 GiB ", "--model"):
        assert part in sentence
    wording("reasons", sentence)


def test_a_killed_evaluation(
    compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    script = tmp_path / "start.py"
    script.write_text(
        "import os, signal\nprint('progress: compiling', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setattr(run_inside, "START", script)
    sentence = compare("").sentence
    assert " signal 9, " in sentence
    assert sentence.endswith("(compiling)")
    wording("reasons", sentence)
