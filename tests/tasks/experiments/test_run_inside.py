"""A module's progress is passed on while it runs; a process that ends badly is one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tasks.experiments import run_inside as module
from tasks.experiments.run_inside import START, run_inside
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, *, patience_s: float = 20.0
) -> tuple[str, list[str]]:
    script, said = tmp_path / "start.py", list[str]()
    script.write_text(text)
    monkeypatch.setattr(module, "START", script)
    problem = run_inside(
        "the evaluation", "module", (tmp_path / "settings", tmp_path / "result"), python=sys.executable,
        environment={}, output=tmp_path / "output", patience_s=patience_s, say=said.append,
    )  # fmt: skip
    return problem, said


def test_progress_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import sys\nprint('a warning')\nprint('progress: compiling')\nopen(sys.argv[3], 'w')\n"
    assert run(tmp_path, monkeypatch, text) == ("", ["compiling"])


def test_a_process_without_an_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import time\nprint('progress: running', flush=True)\ntime.sleep(60)\n"
    assert run(tmp_path, monkeypatch, text, patience_s=2.0)[0] == "the evaluation took more than 2 s"


def test_a_crash_has_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    problem, _ = run(tmp_path, monkeypatch, "raise SystemExit('no memory')")
    assert problem.endswith("exit code 1 (no memory)")
    wording("reasons", problem)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has PR_SET_PDEATHSIG")
def test_the_process_is_gone_with_the_process_that_started_it(tmp_path: Path) -> None:
    settings = tmp_path / "settings"
    os.mkfifo(settings)  # the module waits for what it reads
    code = (
        "import subprocess, sys; "
        f"words = [sys.executable, {str(START)!r}, 'evaluate.compare_twins', {str(settings)!r}, 'done']; "
        "print(subprocess.Popen(words, stdout=subprocess.DEVNULL).pid, flush=True); input()"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    module = psutil.Process(int(starter.stdout.readline()))
    with settings.open("w"):  # opens once the module reads
        assert module.is_running()
        starter.kill()
        starter.communicate()
        psutil.wait_procs([module], timeout=10)
        assert not module.is_running() or module.status() == psutil.STATUS_ZOMBIE
