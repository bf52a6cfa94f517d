"""Programs take turns only where both can; otherwise a sentence says why."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.experiments import kept_recordings
from tasks.experiments import run_inside as module
from tasks.experiments.interleave import TurnLimits, interleave, limits_of, python_of, read_result
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parents[3]
LIMITS = TurnLimits(chance=0.005, tolerance=0.015, least=0.005, limit_s=1.0)


def make_plan(arm: str, **changes: Any) -> RunPlan:
    fields: dict[str, Any] = {
        "comparison": "main-vs-branch", "case": "01_base", "arm": arm, "repeat": 0, "trainer": "maxview",
        "target": "cpu", "backend": "local", "config": {"steps": 6}, "origins": {}, "commit": None, "dirty": False,
        "versions": {}, "environment": {"JAX_PLATFORMS": "cpu"}, "argv": (sys.executable,), "time_limit_s": 60,
        "run_name": arm, "directory": f"/out/runs/{arm}", "identity": arm,
    }  # fmt: skip
    return RunPlan(**(fields | changes))


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """recorded(baseline={…}, candidate={…}): the folder with two recordings that need no trainer."""

    monkeypatch.setattr(kept_recordings, "is_current", lambda *_, **__: True)

    def make(**sides: dict[str, Any]) -> Path:
        for side, changes in sides.items():
            folder = tmp_path / side
            folder.mkdir()
            observation = Observation(**({"step": "train_step", "platform": "cpu", "devices": 1} | changes))
            (folder / "observation.json").write_text(observation.model_dump_json())
        return tmp_path

    return make


PLANS = make_plan("baseline"), make_plan("candidate")
NAMES = ("old", "new")


def test_programs_of_other_devices_take_no_turns(recorded: Callable[..., Path], wording: Wording) -> None:
    folder = recorded(baseline={}, candidate={"devices": 8})
    found = interleave(PLANS, NAMES, folder, LIMITS)
    assert found.problem.endswith("old on 1 × cpu and new on 8 × cpu")
    wording("reasons", found.problem)


def test_two_versions_of_jax_on_a_tpu_take_no_turns(recorded: Callable[..., Path]) -> None:
    folder = recorded(
        baseline={"platform": "tpu", "software": {"jax": "0.11.0"}},
        candidate={"platform": "tpu", "software": {"jax": "0.12.0"}},
    )
    assert "a TPU belongs to one process" in interleave(PLANS, NAMES, folder, LIMITS).problem


def test_an_incomplete_recording_names_its_arm(recorded: Callable[..., Path]) -> None:
    folder = recorded(baseline={}, candidate={})  # without programs
    assert interleave(PLANS, NAMES, folder, LIMITS).problem.startswith("old: its program was not kept")


def test_a_killed_process_is_one_sentence(recorded: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(baseline={}, candidate={})
    script = folder / "start.py"
    script.write_text(
        "import os, signal, sys, pathlib\nprint('turns 8 draws', flush=True)\n"
        f"sys.path.insert(0, {str(ROOT)!r})\nfrom maxview_probe.turns.turn_note import TurnNote\n"
        "TurnNote(pathlib.Path(sys.argv[3])).write('new', 12)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setattr(module, "START", script)
    found = interleave(PLANS, NAMES, folder, LIMITS)
    words = "was killed by signal 9, as when memory runs out (turns 8 draws), in new's program after 12 rounds"
    assert found.problem.endswith(words)


def test_a_failed_check_of_the_compiler_is_its_sentence_without_frames(
    recorded: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded(baseline={}, candidate={})
    said = "F1125 14:00:26 12479 env.cc:93] Check failed: ret == 0 (11 vs. 0) creation via pthread_create() failed."
    stack = "*** Check failure stack trace: ***\n    @     0x7f30bca601b4  absl::LogMessage::Flush()\n"
    (folder / "start.py").write_text(f"import os\nprint({said!r})\nprint({stack!r}, flush=True)\nos.abort()\n")
    monkeypatch.setattr(module, "START", folder / "start.py")
    assert f"was killed by signal 6 ({said})" in interleave(PLANS, NAMES, folder, LIMITS).problem


def test_a_result_is_reused_for_the_same_limits_only(
    recorded: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded(baseline={}, candidate={})
    result = {
        "wall": [0.0, -0.001, 0.001], "cpu": [0.0, -0.001, 0.001], "decided": True, "draws": 8, "rounds": 80,
        "steps_per_turn": 1, "steps": [80, 80], "step_s": [0.1, 0.1], "compile_s": [1.0, 1.0],
        "peak_bytes": [None, None], "alone": False, "seconds": 9.0, "load": 0.5,
    }  # fmt: skip
    script = folder / "start.py"
    script.write_text(f"import sys\nopen({str(folder / 'calls')!r}, 'a').write('.')\n"
                      f"open(sys.argv[3], 'w').write({json.dumps(result)!r})\n")  # fmt: skip
    monkeypatch.setattr(module, "START", script)
    assert interleave(PLANS, NAMES, folder, LIMITS).draws == 8
    assert interleave(PLANS, NAMES, folder, LIMITS).draws == 8
    assert (folder / "calls").read_text() == "."
    interleave(PLANS, NAMES, folder, LIMITS.replace(limit_s=2.0))
    assert (folder / "calls").read_text() == ".."


def test_an_interval_of_two_draws_may_be_of_any_width() -> None:
    found = read_result(
        {"wall": [0.0, -900.0, 900.0], "cpu": [0.0, -1.0, 1.0], "draws": 2, "rounds": 6, "steps": [6, 6],
         "step_s": [1.0, 1.0], "peak_bytes": [1, 2], "alone": True, "seconds": 60.0, "load": 9.0},
        LIMITS, processes=1,
    )  # fmt: skip
    assert found.wall is not None
    assert found.wall.low == pytest.approx(-1.0)


def test_the_chance_is_half_of_the_cases_share() -> None:
    assert limits_of(None, cases=2, limit_s=60.0).chance == pytest.approx(0.01 / 2 / 2)


def test_the_python_of_a_plan_is_that_of_its_command() -> None:
    assert python_of(make_plan("a", argv=("/env/bin/python3.12", "-m", "train"))) == "/env/bin/python3.12"
    assert python_of(make_plan("a", argv=("bash", "run.sh"))) == sys.executable
