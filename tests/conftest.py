"""What tests of several packages need: a bucket on loopback that the real clients talk to, and a real browser."""

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

SERVER = Path(__file__).parent / "standins" / "gcs.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BUCKETS = ("bucket", "viewer:get,list", "blind:")  # where everything, only reading, and nothing may be done

# an example that meets a pause of a busy machine is no mistake, and takes longer than the 0.2 s that it has by default
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

COMPILED = "JAX_COMPILATION_CACHE_DIR"


COMPILED_HERE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """One folder where every trainer and every test process finds what another one has compiled.

    Most of a short training is compiling, and most trainings of the tests are of the same few programs.
    """
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    if COMPILED not in os.environ:  # workers have that of the process that made the folder
        os.environ[COMPILED] = config.stash[COMPILED_HERE] = tempfile.mkdtemp(prefix="maxview-tests-compiled-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Away with the folder, if it is ours."""
    if folder := config.stash.get(COMPILED_HERE, None):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """free_port(): a port for a server that starts some seconds later.

    Of those that kernels do not deal out by themselves: meanwhile any client on this machine might be given another.
    """

    def find() -> int:
        while True:
            port = random.SystemRandom().randrange(15_000, 32_000)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port

    return find


@pytest.fixture(scope="session")
def if_killed() -> Callable[..., AbstractContextManager[None]]:
    """`with if_killed(*argv, **options)`: the command is run if this process is gone before the block is left."""

    @contextmanager
    def watch(*argv: str | Path, **options: Any) -> Iterator[None]:
        words = ["sh", "-c", 'read _; exec "$@"', "sh", *argv]  # only this process has the pipe's other end
        watcher = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, **options)
        try:
            yield
        finally:
            watcher.kill()
            watcher.communicate()

    return watch


@pytest.fixture(scope="session")
def gcs_server(if_killed: Callable[..., AbstractContextManager[None]]) -> Iterator[str]:
    """The address of a storage server on loopback with the buckets `bucket`, `viewer` and `blind`."""
    server = subprocess.Popen([sys.executable, str(SERVER), *BUCKETS], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        with if_killed("sh", "-c", f"kill -9 {server.pid}"):
            yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()  # type: ignore[union-attr]


@pytest.fixture(scope="session")
def gcs_environment(gcs_server: str) -> dict[str, str]:
    """What makes every client of Google's storage talk to the server on loopback, and to nobody else."""
    return {
        "STORAGE_EMULATOR_HOST": gcs_server,
        "TENSORSTORE_GCS_HTTP_URL": gcs_server,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "x",
        "NO_GCE_CHECK": "true",
        "FSSPEC_GS_TOKEN": "anon",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


@pytest.fixture
def gcs_url(gcs_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix in the bucket that no other test uses."""
    for name, value in gcs_environment.items():
        monkeypatch.setitem(os.environ, name, value)
    return f"gs://bucket/{uuid4().hex}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium; skipped where it, or the package that drives it, is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    chromium = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("no Chromium on the PATH")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, headless=True, args=FLAGS, timeout=180_000)
        yield running
        running.close()
