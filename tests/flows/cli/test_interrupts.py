"""Early and repeated Ctrl-C, and killed servers, with real processes."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tasks.services.server import EmbeddedServer, ServerError, answers
from tests.wording.sentences import Wording

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
START = "import sys; from flows.cli.start import main; sys.argv[1:] = {words}; {before}; main()"
INTERRUPTED = re.compile(r"maxview: interrupted; [^\n]+\n")  # nothing else, such as a traceback


started: list["subprocess.Popen[str]"] = []


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    while started:
        process = started.pop()
        process.kill()
        process.communicate()


def start(words: list[str], *, before: str = "print('up', flush=True)", cwd: Path) -> "subprocess.Popen[str]":
    """The command line, once its first line is about to run."""
    process = subprocess.Popen(
        [sys.executable, "-c", START.format(words=words, before=before)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


# an empty module finder: main() has installed its handlers by the time it imports the first of our modules
ASKED = """
class Asked:
    def find_spec(self, name, *_):
        if name == "flows.cli.app":
            print("up", flush=True)
sys.meta_path.insert(0, Asked())
"""


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3])
def test_while_it_is_loading(after_s: float, tmp_path: Path, wording: Wording) -> None:
    process = start(["compare", "linen-vs-nnx"], before=f"exec({ASKED!r})", cwd=tmp_path)
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert INTERRUPTED.fullmatch(said)
    wording("errors", said)
    assert not list(tmp_path.iterdir())


# a command that reports the first Ctrl-C and then waits for a child in a system call, like a flow that ends its jobs
DEAF = """
import flows.cli.app, subprocess, time
def call():
    child = subprocess.Popen(['sleep', '300'])
    try:
        print(child.pid, flush=True); time.sleep(300)
    except KeyboardInterrupt:
        print('stopping', flush=True); {wait}
flows.cli.app.call_command = call
print('up', flush=True)
"""


def test_sigterm_ends_a_command_like_ctrl_c(tmp_path: Path) -> None:
    process = start([], before=f"exec({DEAF.format(wait='child.kill(); raise')!r})", cwd=tmp_path)
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert INTERRUPTED.fullmatch(said)
    wait_for(lambda: is_gone(child))


@pytest.mark.parametrize("wait", ["time.sleep(300)", "import ctypes; [ctypes.CDLL(None).sleep(300) for _ in 'twice']"])
def test_the_second_ctrl_c_ends_everything_at_once(wait: str, tmp_path: Path) -> None:
    before = f"exec({DEAF.format(wait=wait)!r})"
    process = start([], before=before, cwd=tmp_path)
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)  # instead of 300 s
    assert process.returncode == 130
    assert INTERRUPTED.fullmatch(said)
    wait_for(lambda: is_gone(child))


def test_an_internal_error_is_not_a_verdict(tmp_path: Path) -> None:
    process = start(
        [],
        before="import flows.cli.app; flows.cli.app.call_command = lambda: 1 / 0; print('up', flush=True)",
        cwd=tmp_path,
    )
    _, said = process.communicate(timeout=60)
    assert "ZeroDivisionError" in said
    assert process.returncode == 2  # 1 would mean that something regressed


@pytest.mark.parametrize(
    "way", ["print('x' * 100_000)", "rich.console.Console(highlight=False).print('x' * 100_000, soft_wrap=True)"]
)
def test_a_broken_pipe_is_not_a_verdict(way: str, tmp_path: Path) -> None:
    """The reader ends like `| head -1`."""
    process = start(
        [],
        before=f"import flows.cli.app as app, rich.console; app.call_command = lambda: {way}; print('up', flush=True)",
        cwd=tmp_path,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (141, "")


# a library that catches every exception during its import
SWALLOWS = """
import flows.cli.app, time
from flows.cli.interrupts import NothingToUndo
def call():
    with NothingToUndo():
        try:
            print('up', flush=True); time.sleep(300)
        except BaseException:
            time.sleep(300)
flows.cli.app.call_command = call
"""


def test_the_first_ctrl_c_ends_a_command_without_jobs(tmp_path: Path) -> None:
    process = start([], before=f"exec({SWALLOWS!r})", cwd=tmp_path)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)  # instead of 300 s
    assert process.returncode == 130
    assert INTERRUPTED.fullmatch(said)


# a flow with a job, whose server is away for a long time
BEREFT = """
import flows.cli.app, time
from tasks.services.running_jobs import Jobs
from flows.cli.commands.run_flow import end_in_time
from tasks.services.server import PrefectApi
def call():
    end_in_time(PrefectApi('http://127.0.0.1:{port}/api'))
    try:
        with Jobs().{block}:
            try:
                print('up', flush=True); time.sleep(300)
            except KeyboardInterrupt:
                time.sleep(300)
    finally:
        time.sleep(300)
flows.cli.app.call_command = call
"""


# also during its start or its attachment
@pytest.mark.parametrize(
    "block",
    [
        "holding('a', lambda: print('stopped', flush=True))",
        "launching('a', lambda: print('stopped', flush=True))",
    ],
)
def test_the_first_ctrl_c_ends_the_jobs_without_waiting_for_a_dead_server(block: str, tmp_path: Path) -> None:
    with socket.socket() as held:  # bound, but not listening
        held.bind(("127.0.0.1", 0))
        code = BEREFT.format(port=held.getsockname()[1], block=block)
        process = start([], before=f"exec({code!r})", cwd=tmp_path)
        process.send_signal(signal.SIGINT)
        done, said = process.communicate(timeout=60)  # instead of 300 s
    assert (process.returncode, done) == (130, "stopped\n")
    assert INTERRUPTED.fullmatch(said)


# a stand-in for Prefect's health check, which starts at once
ANSWERS = """
import http.server
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"true")
    def log_message(self, *_): pass
class Config:
    def __init__(self, *_, **__): pass
class Server:
    def __init__(self, _): pass
    def run(self, sockets):
        server = http.server.HTTPServer(("127.0.0.1", 0), Health, bind_and_activate=False)
        server.socket.close()
        server.socket = sockets[0]
        server.server_activate()
        server.serve_forever()
"""


@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.by_hand)])
def test_a_killed_embedded_server_is_restarted_at_its_address(
    clean_environment: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    real: bool,
) -> None:
    home = tmp_path / "home"
    if real:
        request.getfixturevalue("used_home")(home)
    else:
        (tmp_path / "uvicorn.py").write_text(ANSWERS)
    for name, value in (clean_environment | {"PREFECT_HOME": str(home)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    server = EmbeddedServer()
    try:
        server.wait()
        assert server.server is not None
        reported: list[str] = []
        server.keep_alive(reported.append)
        killed, url = server.server.pid, server.server.url
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: (now := server.files.find()) is not None and now.pid != killed and answers(url))
        assert reported == []
    finally:
        server.stop()
        assert server.files.end()
    assert not answers(url)  # and it is not restarted


def is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180.0
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_a_server_killed_during_its_start_is_not_called_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    server = EmbeddedServer()
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    with pytest.raises(ServerError, match=r": SIGKILL .*; try again$"):
        server.wait()
    server.stop()


def test_a_full_disk_under_its_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its log cannot be written either, so the server reports nothing itself."""
    (tmp_path / "uvicorn.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=10**9, used=10**9 - 10**6, free=10**6))
    server = EmbeddedServer()
    try:
        with pytest.raises(ServerError, match=r"No space left on device: .* 0\.00 of"):
            server.wait()
    finally:
        server.stop()


def test_a_server_that_ends_repeatedly_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text("raise OSError('no')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    server = EmbeddedServer()
    reported: list[str] = []
    try:
        server.keep_alive(reported.append)
        wait_for(lambda: bool(reported))
        assert "again and again: OSError: no" in reported[0]
    finally:
        server.stop()


USES = """
import os, sys, time
os.register_at_fork(before=lambda: print('fork'))
from tasks.services.server import EmbeddedServer
server = EmbeddedServer(idle_s=float(sys.argv[1])); server.wait(); print(server.server.pid, flush=True); time.sleep(300)
"""


def use_server(idle_s: float, environment: dict[str, str]) -> tuple["subprocess.Popen[str]", psutil.Process]:
    """Start a command with an embedded server and return it once it has printed the server's pid."""
    argv = [sys.executable, "-c", USES, str(idle_s)]
    command = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)
    started.append(command)
    assert command.stdout is not None
    # the start triggers no fork handlers of libraries: JAX, which has threads, warns of a deadlock there
    return command, psutil.Process(int(command.stdout.readline()))


@pytest.fixture
def environment(clean_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of commands with the fast stand-in server."""
    (tmp_path / "uvicorn.py").write_text(ANSWERS)
    return clean_environment | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PREFECT_HOME": str(tmp_path)}


def test_an_idle_embedded_server_ends_after_its_last_use(environment: dict[str, str]) -> None:
    first, server = use_server(2.0, environment)
    second, again = use_server(2.0, environment)
    assert again == server
    first.kill()  # in whatever way it ends
    time.sleep(4.0)
    assert server.is_running()
    second.kill()
    wait_for(lambda: is_gone(server))
    third, anew = use_server(300.0, environment)
    assert anew != server
    third.kill()
    third.wait()
    assert anew.is_running()
    down = subprocess.run([sys.executable, "-m", "flows.cli", "down"], env=environment, capture_output=True, text=True)
    assert (down.returncode, down.stderr) == (0, "embedded server: ended\n")
    assert is_gone(anew)


def test_simultaneous_commands_share_one_server(environment: dict[str, str]) -> None:
    with ThreadPoolExecutor() as together:
        begun = list(together.map(lambda _: use_server(2.0, environment), range(3)))
    assert len({server.pid for _, server in begun}) == 1


def test_other_settings_need_another_server(environment: dict[str, str]) -> None:
    _, server = use_server(2.0, environment)
    _, other = use_server(2.0, environment | {"PREFECT_SERVER_DATABASE_TIMEOUT": "60"})
    assert other != server
