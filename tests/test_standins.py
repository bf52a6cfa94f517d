"""Processes started by the tests end with them, also if the tests are killed; a stored log stands in for a training."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.standins.replay import write_python

pytestmark = pytest.mark.flows

ROOT = Path(__file__).parent.parent
AT = "I0418 00:{:02}:{:02}.000000 135104514455360 "
STEP = "metric_logger.py:196] completed step: {}, seconds: 0.500, TFLOP/s/device: 1.000, loss: 3.{}00"
SAVES = "[process=0] [async] Started save checkpoint @ /old/checkpoints/0."
SAVED = "[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `/old/checkpoints/0`."
KILLED = """
import os, subprocess
def test_killed(if_killed):
    server = subprocess.Popen(['sleep', '300'])
    with if_killed('sh', '-c', f'kill -9 {server.pid}'):
        open('pid', 'w').write(str(server.pid))
        os.kill(os.getpid(), 9)
"""


def test_a_server_ends_with_killed_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (tmp_path / "test_killed.py").write_text(KILLED)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_killed.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False, timeout=300)
    assert done.returncode == -9, done.stdout
    server = int((tmp_path / "pid").read_text())
    if psutil.pid_exists(server):  # the signal's time to arrive
        psutil.Process(server).wait(60)


def test_a_stored_log_is_played_with_its_checkpoint(tmp_path: Path) -> None:
    stored, run = tmp_path / "logs" / "runs" / "01_base-linen-r0-abc", tmp_path / "run"
    (stored / "checkpoints" / "0").mkdir(parents=True)
    (stored / "checkpoints" / "0" / "array").write_bytes(b"payload")
    lines = [
        "XPK Start: Sat Apr 18 00:54:24 UTC 2026",
        AT.format(55, 0) + STEP.format(0, 0),
        AT.format(55, 1) + "event_tracking.py:70] " + SAVES,
        AT.format(55, 40) + "atomicity.py:847] " + SAVED,
        AT.format(56, 0) + STEP.format(1, 1),
        "EXIT_CODE=3\n",
    ]
    (stored / "log.txt").write_text("\n".join(lines))
    run.mkdir()
    (run / "plan.json").write_text(json.dumps({"case": "01_base", "arm": "linen", "repeat": 0}))
    python = write_python(tmp_path / "python", tmp_path / "logs", speed=60)
    done = subprocess.run(
        [python, "-m", "model.train", str(run / "config.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == "\n".join(lines[1:5]).replace("/old/", f"{run}/") + "\n"
    assert (run / "checkpoints" / "0" / "array").read_bytes() == b"payload"
    other = subprocess.run([python, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    assert other.stdout == "42\n"
