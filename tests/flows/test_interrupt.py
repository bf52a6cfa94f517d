"""Ctrl-C, early and twice, and a server that is killed: real processes, which end as they should or go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from tasks.services.server import EmbeddedServer

ROOT = Path(__file__).parent.parent.parent
START = "import sys; from flows.cli.start import main; sys.argv[1:] = {words}; {before}; main()"


def start(words: list[str], *, before: str = "print('up', flush=True)", cwd: Path) -> "subprocess.Popen[str]":
    """The command line, once its first line is about to run."""
    process = subprocess.Popen(
        [sys.executable, "-c", START.format(words=words, before=before)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize("after_s", [0.01, 0.1, 0.3])
def test_while_it_is_loaded(after_s: float, tmp_path: Path) -> None:
    process = start(["compare", "linen-vs-nnx"], cwd=tmp_path)
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "maxview: interrupted; the same command goes on from here\n")
    assert not list(tmp_path.iterdir())


# a command that hears the first, says so, and then waits in the system with a child, as a flow that ends its jobs does
DEAF = """
import flows.cli.app, subprocess, time
def call():
    child = subprocess.Popen(['sleep', '300'])
    try:
        print(child.pid, flush=True); time.sleep(300)
    except KeyboardInterrupt:
        print('stopping', flush=True); {wait}
flows.cli.app.call = call
print('up', flush=True)
"""


@pytest.mark.parametrize("wait", ["time.sleep(300)", "import ctypes; ctypes.CDLL(None).sleep(300)"])
def test_the_second_ends_all_at_once(wait: str, tmp_path: Path) -> None:
    before = f"exec({DEAF.format(wait=wait)!r})"
    process = start([], before=before, cwd=tmp_path)
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)  # of the 300 that it would have waited
    assert (process.returncode, said) == (130, "maxview: interrupted; the same command goes on from here\n")
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_an_embedded_server_that_is_killed_is_started_again_where_it_was(
    clean_environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (clean_environment | {"PREFECT_HOME": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    server = EmbeddedServer()
    try:
        server.wait()
        told: list[str] = []
        server.keep_alive(told.append)
        os.kill(server._process.pid, signal.SIGKILL)
        wait_for(lambda: not answers(server.url))
        wait_for(lambda: answers(server.url))
        assert told == []
    finally:
        server.stop()
    time.sleep(1.0)
    assert not answers(server.url)  # ended on purpose


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2).is_success
    except httpx.HTTPError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180.0
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_one_that_ends_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tasks.services.server.POLL_S", 0.01)
    monkeypatch.setattr(
        EmbeddedServer, "_start", lambda self: subprocess.Popen(["sh", "-c", "echo 'OSError: no'"], stdout=self._log)
    )
    server = EmbeddedServer()
    told: list[str] = []
    try:
        server.keep_alive(told.append)
        wait_for(lambda: bool(told))
        assert told[0].startswith("Prefect's embedded server ends again and again: OSError: no")
    finally:
        server.stop()
