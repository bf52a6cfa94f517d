"""Real servers and real command lines for the flows' tests."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import psutil
import pytest

ROOT = Path(__file__).parent.parent.parent

type Maxview = Callable[..., subprocess.CompletedProcess[str]]
type Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def clean_environment() -> dict[str, str]:
    """The environment of a new user: nothing of Prefect's or JAX's is set."""
    dropped = ("PREFECT_", "JAX_", "XLA_")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where trainers find what another test's have compiled: two thirds of a short training is compiling."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    return {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory, clean_environment: dict[str, str]) -> Iterator[str]:
    """A Prefect server on loopback with a database of its own; yields its API's address."""
    home = tmp_path_factory.mktemp("prefect")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = clean_environment | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
    }
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=ROOT)
        url = f"http://127.0.0.1:{port}/api"
        try:
            deadline = time.monotonic() + 120
            while True:
                try:
                    httpx.get(f"{url}/health", timeout=2).raise_for_status()
                    break
                except httpx.HTTPError:
                    assert server.poll() is None, (home / "server.log").read_text()
                    assert time.monotonic() < deadline, (home / "server.log").read_text()
                    time.sleep(0.2)
            yield url
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait(20)


@pytest.fixture
def user_environment(clean_environment: dict[str, str], prefect_server: str, tmp_path: Path) -> dict[str, str]:
    """A user with a Prefect server at hand."""
    return clean_environment | {"PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(tmp_path / "prefect-home")}


@pytest.fixture
def start(user_environment: dict[str, str], compiled: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start `maxview …` as a shell would, in a process group of its own; whatever is left of it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", *words],
            cwd=tmp_path,
            env=dict(environment or user_environment | compiled) | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for left in find_processes(tmp_path):
        left.kill()


@pytest.fixture
def maxview(start: Start) -> Maxview:
    """Run `maxview …` to its end."""

    def run(*words: str, environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        process = start(*words, environment=environment)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


@pytest.fixture
def processes_of() -> Callable[[Path], list[psutil.Process]]:
    """Every live process whose command line names something in a folder."""
    return find_processes


def find_processes(folder: Path) -> list[psutil.Process]:
    """Every live process whose command line names something in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and any(str(folder) in word for word in process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found
