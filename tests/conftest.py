"""Fixtures for several packages: Prefect's server, a bucket for the real clients, and a real browser."""

import fcntl
import os
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.wording.sentences import pytest_runtest_makereport, pytest_sessionfinish, wording  # noqa: F401

ROOT = Path(__file__).parent.parent
SERVER = ROOT / "tests" / "standins" / "gcs.py"
DATABASE = "prefect.db"  # in PREFECT_HOME
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
BUCKETS = ("bucket", "viewer:get,list", "blind:")  # permissions: all, read-only, none

# commands are printed as they work where maxview was typed: here, as without `uv run`
os.environ.pop("UV_RUN_RECURSION_DEPTH", None)

# an example may pause on a busy machine: its default limit is 0.2 s
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

COMPILED = "JAX_COMPILATION_CACHE_DIR"
SHARED = "MAXVIEW_TESTS_SHARED"  # a folder of all processes of a test run
ALIVE = "alive"  # a pipe in it; only the main process has it open for writing

USE_STACK = {f"tests/flows/test_{name}.py" for name in ("both_uis", "deployments", "kubernetes_pool", "up_and_down")}

# fixtures of servers and browsers: tests that use them are flows, without a marker of their own
SERVERS = {"prefect_server", "gcs_server", "browser"}
PURE = "not long and not flows"
TIERS = {
    "": PURE,
    "flows": "flows and not long",
}  # what `-m` means here; for a path, no `-m` means all but the long tests
# what a file has to contain, or must not, to have tests of a tier: importing all files takes seconds in every process
ALL_MARKED = re.compile(r"^pytestmark = (\[[^\]]*|.*)mark\.(flows|long)\b", re.MULTILINE)

OURS = pytest.StashKey[tuple[Path, int]]()
# a command and its guard, which kills their group when the pipe is closed; neither is a child of the starting process
GUARD = 'exec 3<&0; { { "$@"; kill -9 -$$; } & read _ <&3; kill -9 -$$; } & echo $! >"$0"'


def pytest_configure(config: pytest.Config) -> None:
    """A folder that all processes of a test run share: compiled programs, started servers, trained runs.

    Compiling takes most of a short training, and most trainings of the tests use the same few programs.
    """
    given = config.option.markexpr
    config.option.markexpr = "not long" if not given and names_a_path(config) else TIERS.get(given, given)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    if SHARED in os.environ:  # workers inherit the main process's folder
        return
    folder = Path(tempfile.mkdtemp(prefix="maxview-tests-"))
    os.mkfifo(folder / ALIVE)
    config.stash[OURS] = folder, os.open(folder / ALIVE, os.O_RDWR)
    os.environ[SHARED] = str(folder)
    os.environ.setdefault(COMPILED, str(folder / "compiled"))
    # the tests start hundreds of Python processes: without bytecode each takes seconds to import Prefect
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")


def names_a_path(config: pytest.Config) -> bool:
    return config.args_source is pytest.Config.ArgsSource.ARGS


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the files that have no test of the selected tier, and folders of such files."""
    expression = config.option.markexpr
    if not (expression == PURE or expression.startswith("long")):
        return None
    if collection_path.is_dir():
        files = list(collection_path.rglob("test_*.py"))
    else:
        files = [collection_path] if collection_path.name.startswith("test_") else []
    texts = [file.read_text(encoding="utf-8") for file in files]
    if expression == PURE:
        return True if texts and all(map(ALL_MARKED.search, texts)) else None
    return True if texts and not any("mark.long" in text for text in texts) else None


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the users of servers as flows, and begin with the files with most long tests, then with most flows."""
    for item in items:
        if SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("flows")
    long, flows = Counter[Path](), Counter[Path]()
    for item in items:
        long[item.path] += item.get_closest_marker("long") is not None
        flows[item.path] += item.get_closest_marker("flows") is not None
    items.sort(key=lambda item: (-long[item.path], -flows[item.path]))


class ByServer(LoadFileScheduling):  # type: ignore[misc]
    """Keep the tests of a file together, because they share its servers; also all files that use one `maxview up`."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "maxview up" if file in USE_STACK else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: one process for a path, which starts sooner; for all tests, four.

    Four is twice the reference machine's two cores, because flows wait for servers. Pure tests wait for nothing.
    """
    if names_a_path(config):
        return 0
    return 4 if config.option.markexpr else os.cpu_count() or 1


@pytest.hookimpl(optionalhook=True)  # a run without xdist has one process
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Used for `--dist loadfile`, the default here."""
    return ByServer(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the servers of the whole run: their guards see the pipe close when the last process ends, in any way."""
    if OURS in config.stash:
        folder, alive = config.stash[OURS]
        os.close(alive)
        deadline = time.monotonic() + 60
        guards = [int(path.read_text()) for path in folder.glob("*.pid")]
        while any(map(psutil.pid_exists, guards)) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep seals of temporary runs out of the user's state folder: their paths are reused."""
    before = os.environ.get("MAXVIEW_STATE")
    os.environ["MAXVIEW_STATE"] = str(tmp_path_factory.mktemp("state"))
    yield
    os.environ.pop("MAXVIEW_STATE") if before is None else os.environ.update(MAXVIEW_STATE=before)


@pytest.fixture(scope="session")
def shared() -> Callable[[str, Callable[[], str]], str]:
    """shared(name, make): the result of `make`, which one of all processes of the test run calls."""

    def find(name: str, make: Callable[[], str]) -> str:
        place = Path(os.environ[SHARED]) / name
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_file():
                place.write_text(make())
        return place.read_text()

    return find


@pytest.fixture(scope="session")
def start_for_all() -> Callable[..., int]:
    """start_for_all(*argv, **options): start a process that ends with the whole test run, also if the run is killed.

    Returns the pid of a process with the same lifetime.
    """

    def start(*argv: str | Path, **options: Any) -> int:
        folder = Path(os.environ[SHARED])
        place = folder / f"{uuid4().hex}.pid"
        alive = os.open(folder / ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(alive, True)
        words = ["sh", "-c", GUARD, str(place), *argv]
        try:
            subprocess.run(words, stdin=alive, start_new_session=True, check=True, **options)
        finally:
            os.close(alive)
        return int(place.read_text())

    return start


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """free_port(): a port for a server that starts some seconds later.

    It lies outside of the range of ephemeral ports: otherwise any client on this machine might get it meanwhile.
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
    """`with if_killed(*argv, **options)`: the command runs if this process dies inside the block."""

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
def clean_environment() -> dict[str, str]:
    """The environment of a new user, without variables of Prefect or JAX, except for the compilation cache."""
    dropped, kept = ("PREFECT_", "JAX_", "XLA_"), ("JAX_COMPILATION_CACHE_", "JAX_PERSISTENT_CACHE_")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped) or key.startswith(kept)}


@pytest.fixture(scope="session")
def prefect_server(
    tmp_path_factory: pytest.TempPathFactory,
    clean_environment: dict[str, str],
    free_port: Callable[[], int],
    shared: Callable[[str, Callable[[], str]], str],
    start_for_all: Callable[..., int],
) -> str:
    """A Prefect server on loopback for all tests of this run, also those in other processes: its API's address."""

    def start() -> str:
        home = tmp_path_factory.mktemp("prefect")
        port = str(free_port())
        environment = clean_environment | {
            "PREFECT_HOME": str(home),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        }
        argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port]
        with (home / "server.log").open("wb") as log:
            server = start_for_all(*argv, env=environment, stdout=log, stderr=log, cwd=ROOT)
        url = f"http://127.0.0.1:{port}/api"
        deadline = time.monotonic() + 300
        while True:
            try:
                httpx.get(f"{url}/health", timeout=2).raise_for_status()
                break
            except httpx.HTTPError:
                assert psutil.pid_exists(server), (home / "server.log").read_text()
                assert time.monotonic() < deadline, (home / "server.log").read_text()
                time.sleep(0.2)
        with closing(sqlite3.connect(home / DATABASE)) as made, closing(sqlite3.connect(empty_database())) as copy:
            made.backup(copy)
        return url

    return shared("prefect", start)


@pytest.fixture(scope="session")
def used_home(prefect_server: str) -> Callable[[Path], Path]:
    """used_home(folder): create a PREFECT_HOME with a migrated database.

    Prefect's migrations are half of the cost of a server's first start.
    """

    def make(folder: Path) -> Path:
        folder.mkdir(parents=True)
        shutil.copy(empty_database(), folder / DATABASE)
        return folder

    return make


def empty_database() -> Path:
    """The empty database of the shared server, before the first test."""
    return Path(os.environ[SHARED]) / DATABASE


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
    """Redirect every client of Google's storage to the server on loopback."""
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
