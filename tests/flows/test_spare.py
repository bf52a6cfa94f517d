"""The spare process: what is done to a command that it took is done to the process that does it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from flows.cli import hand_over

ROOT = Path(__file__).parent.parent.parent
# a spare process that has loaded nothing but what the test says; only its own program is another
SPARE = """
import sys, types
from pathlib import Path
from flows.cli import spare
spare.load = lambda: None
app = types.ModuleType("flows.cli.app")
exec(Path(sys.argv.pop(1)).read_text(), vars(app))
sys.modules["flows.cli.app"] = app
spare.main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
"""
COMMAND = """
import os, sys, time
def call():
    try:  # from the first word on: Ctrl-C may come as soon as it is read
        print(os.getpid(), os.getcwd(), os.environ["MINE"], *sys.argv[1:], flush=True)
        if "end" in sys.argv:
            return int(sys.argv[-1])
        if "die" in sys.argv:
            os.kill(os.getpid(), 9)
        time.sleep(300)
    except KeyboardInterrupt:
        print("stopping", flush=True)
        time.sleep(300)
"""


class Standby:
    """A spare process, and commands that are handed to it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment | {"PREFECT_HOME": str(folder), "MINE": "a b"}
        self.started: list[subprocess.Popen[str]] = []
        (folder / "maxview").mkdir()
        (folder / "command.py").write_text(COMMAND)
        ask = "from flows.cli.hand_over import socket_path; print(socket_path())"
        self.path = Path(self._run("-c", ask).communicate()[0].strip())
        self.server = subprocess.Popen(["sleep", "300"])  # it ends with this
        argv = ["-c", SPARE, str(folder / "command.py"), str(self.path), str(self.server.pid), "300"]
        self.spare = self._run(*argv)
        wait_for(self.path.exists)

    def _run(self, *words: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, *words]
        out = subprocess.PIPE
        process = subprocess.Popen(argv, env=self.environment, cwd=self.folder, stdout=out, stderr=out, text=True)
        self.started.append(process)
        return process

    def command(self, *words: str) -> "subprocess.Popen[str]":
        return self._run("-c", "from flows.cli.start import main; main()", "ingest", *words)


@pytest.fixture
def standby(tmp_path: Path, clean_environment: dict[str, str]) -> Iterator[Standby]:
    running = Standby(tmp_path, clean_environment | {"PYTHONPATH": str(ROOT)})
    yield running
    running.server.kill()
    running.server.wait()
    running.spare.communicate(timeout=60)  # it has seen that
    assert not running.path.exists()
    for process in running.started:
        process.kill()
        process.communicate()


def first_line(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split(" ")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_a_command_is_done_where_it_was_typed(standby: Standby) -> None:
    process = standby.command("some log", "end", "3")
    said, errors = process.communicate(timeout=60)
    words = said.split(maxsplit=1)
    assert words[1] == f"{standby.folder} a b ingest some log end 3\n"
    assert psutil.pid_exists(standby.spare.pid)
    assert int(words[0]) not in (process.pid, standby.spare.pid)
    assert (process.returncode, errors) == (3, "")


def test_ctrl_c_reaches_it_and_the_second_ends_it(standby: Standby) -> None:
    process = standby.command("x")
    copy = psutil.Process(int(first_line(process)[0]))
    process.send_signal(signal.SIGINT)
    assert first_line(process) == ["stopping\n"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # of the 300 that it would have waited
    assert (process.returncode, errors) == (130, "maxview: interrupted; the same command goes on from here\n")
    wait_for(lambda: not copy.is_running())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_was_started(standby: Standby, number: int) -> None:
    process = standby.command("x")
    copy = psutil.Process(int(first_line(process)[0]))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    wait_for(lambda: not copy.is_running())


def test_one_that_is_killed_looks_killed(standby: Standby) -> None:
    process = standby.command("die")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_a_process_in_other_circumstances_does_its_own_commands(standby: Standby) -> None:
    ask = ["-c", "from flows.cli.hand_over import socket_path; print(socket_path())"]

    def place(*prefix: str, **more: str) -> str:
        argv, environment = [*prefix, sys.executable, *ask], standby.environment | more
        done = subprocess.run(
            argv, env=environment, cwd=standby.folder, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout.strip()

    assert place(COLUMNS="77") == str(standby.path)
    others = [place("nice"), place(JAX_PLATFORMS="cpu"), place("sh", "-c", 'umask 7; exec "$@"', "sh")]
    assert len({str(standby.path), *others}) == 4


def test_only_its_user_reaches_it(standby: Standby) -> None:
    """Whoever reaches it runs programs here, with the environment that he sends."""
    path = standby.path
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    """Somebody else's socket there would be sent the whole environment."""
    path = tmp_path / "spare.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(60)
        tmp_path.chmod(0o777)
        assert hand_over.connect(path, 0.1) is None
        tmp_path.chmod(0o700)
        assert hand_over.connect(path, 0.1) is None  # nobody answers
        line, _ = listener.accept()  # the first one has not come this far
        with line:
            assert hand_over.peer_of(line) == (os.getpid(), os.getuid())
            assert line.recv(1 << 20) != b""
        listener.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listener.accept()
