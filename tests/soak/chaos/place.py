"""A local Prefect in a separate folder, its comparisons, and its processes that can be killed."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil

from tasks.launch.processes import members
from tasks.launch.supervise import GUARD
from tasks.services import up
from tasks.services.kept_programs import Kept, start_kept
from tests.soak.chaos.nursery import ENDED
from tests.standins.replay import PLAYER

ROOT = Path(__file__).parent.parent.parent.parent
COPIED = ("configs", "flows", "tasks", "model", "deployments")
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
STEPS = 12
SETTINGS = (f"steps={STEPS}", "checkpoint_period=4", "max_target_length=32")
PATIENCE_S = 300.0  # after which a comparison counts as stuck
REPLAY_SPEED = "16"


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class FlowRun:
    """A comparison that the worker runs."""

    place: "Place"
    id: str

    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.place.state_of(self.id)["type"] in FINAL

    def finish(self, seconds: float = PATIENCE_S) -> str:
        """How it ended, or where it is stuck."""
        ended = wait_until(self.is_over, seconds, 0.5)
        state = self.place.state_of(self.id)
        return f"{'' if ended else 'stuck in '}{state['type']} {state['name']}"


@dataclass(frozen=True)
class Command:
    """A comparison started from a shell."""

    process: "subprocess.Popen[bytes]"
    log: Path  # its output so far

    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def finish(self, seconds: float = PATIENCE_S) -> str:
        """How it ended; one that is stuck is killed."""
        try:
            return f"exit {self.process.wait(seconds)}"
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "stuck"


@dataclass(frozen=True)
class Forked:
    """A comparison forked from the loaded command line, on this place's server."""

    pid: int
    log: Path  # its output so far

    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._ended.exists()

    def finish(self, seconds: float = PATIENCE_S) -> str:
        """How it ended; one that is stuck is killed."""
        if not wait_until(self.is_over, seconds):
            os.kill(self.pid, signal.SIGKILL)
            return "stuck"
        return f"exit {self._ended.read_text()}"

    @property
    def _ended(self) -> Path:
        return self.log.with_name(self.log.name + ENDED)


class Place:
    """A running `maxview up` on a copy of the packages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state, self.out = folder, folder / "state", folder / "out"
        self.tree, self.home = folder / "tree", folder / "home"
        noted = self.state / up.PLACE_FILE  # a killed soak may have left a server running
        self.port = up.Place.model_validate_json(noted.read_text()).port if noted.exists() else free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        shutil.rmtree(self.tree, ignore_errors=True)
        for name in COPIED:
            shutil.copytree(ROOT / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.tree)
        nightly = self.tree / "configs" / "nightly.yml"  # a killed command's slice is released after a minute
        nightly.write_text(
            nightly.read_text().replace("slices: {", "slices: {replay: 99, ").replace("cpu: 1", "cpu: 99")
        )
        cpu = (self.tree / "configs" / "targets" / "cpu.yml").read_text()
        replay = (
            f"{cpu}wrap: {json.dumps([sys.executable, str(PLAYER), str(folder / 'stored')])}\npass_on: [REPLAY_SPEED]\n"
        )
        (self.tree / "configs" / "targets" / "replay.yml").write_text(replay)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
        self.environment = kept | {
            "MAXVIEW_CACHE": str(folder / "cache"),
            "REPLAY_SPEED": REPLAY_SPEED,
            "PREFECT_WORKER_QUERY_SECONDS": "1",  # less waiting for the worker to look
            "PYTHONPATH": str(self.tree),
            # a restarted trainer reuses compiled programs, so that more of its time is training
            "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }

    def up(self) -> None:
        """Start the services that do not run."""
        self._run("-m", "flows.cli", "up", "--state", str(self.state), "--out", str(self.out), "--port", str(self.port))

    def down(self) -> None:
        """End worker, server, the process that commands are forked from, and the embedded server."""
        if nursery := self.__dict__.get("_nursery"):
            nursery.stdin.close()
            nursery.wait()
        for home in (self.state / "prefect", self.home):  # of the server, and of commands with their own
            self._run("-m", "flows.cli", "down", "--state", str(self.state), PREFECT_HOME=str(home))

    def bring_back(self, name: str) -> None:
        """Start only the server or the worker again, as `up` does."""
        place = up.Place.model_validate_json((self.state / up.PLACE_FILE).read_text())
        words = {
            up.SERVER: ("server", "start", "--host", place.host, "--port", str(place.port)),
            up.WORKER: ("worker", "start", "--pool", up.POOL, "--name", "maxview"),
        }
        argv = [sys.executable, "-m", "prefect", *words[name]]
        settings = up.environment_of(place, self.environment)
        kept = start_kept(name, argv, state=self.state, folder=self.tree, environment=settings)
        if name == up.SERVER:
            up.wait_for_server(place, kept)

    def make_home(self) -> None:
        """Copy the database for commands with their own server: creating one is slow."""
        if not self.home.exists():
            self.home.mkdir()
            with closing(sqlite3.connect(self.state / "prefect" / "prefect.db")) as made:
                made.execute("VACUUM INTO ?", [str(self.home / "prefect.db")])

    def _run(self, *words: str, **settings: str) -> None:
        argv, environment = [sys.executable, *words], self.environment | settings
        done = subprocess.run(argv, cwd=self.tree, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")

    def ask(self, path: str, **content: Any) -> Any:
        """Return the server's answer; waits while the server is being restarted."""
        for attempt in range(60):
            try:  # a server on a busy machine also answers 503: its database is locked
                reply = httpx.post(f"{self.api}{path}", timeout=30, **content) if content else httpx.get(
                    f"{self.api}{path}", timeout=30
                )  # fmt: skip
                reply.raise_for_status()
                return reply.json()
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if attempt == 59 or (isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500):
                    raise
                time.sleep(1)
        raise AssertionError("unreachable")

    def ask_for(self, kind: str, target: str) -> "FlowRun | Command | Forked":
        """Start the comparison for a kill of this kind; forks it if possible, which is fastest."""
        if kind == "worker":
            return self.submit(target)
        return self.command(target) if kind == "embedded" else self.fork(target)

    def _words(self, target: str) -> list[str]:
        words = ["compare", "linen-vs-nnx", "--target", target, "--out", str(self.out)]
        return words + [word for setting in SETTINGS for word in ("--set", setting)]

    def command(self, target: str) -> Command:
        """Start `maxview compare` as from a shell: in its own process group, with its own server."""
        log = self.folder / f"command-{time.time_ns()}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "flows.cli", *self._words(target)], cwd=self.tree,
                env=self.environment | {"PREFECT_HOME": str(self.home)},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        return Command(process, log)

    def fork(self, target: str) -> Forked:
        """Fork `maxview compare` from the loaded process, on this place's server, in its own session."""
        log = self.folder / f"forked-{time.time_ns()}.log"
        wanted = {"words": self._words(target), "log": str(log), "environment": {}}
        nursery = self._nursery
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        nursery.stdin.write(json.dumps(wanted) + "\n")
        nursery.stdin.flush()
        return Forked(int(nursery.stdout.readline()), log)

    @cached_property
    def _nursery(self) -> "subprocess.Popen[str]":
        settings = {"PREFECT_HOME": str(self.home), "PREFECT_API_URL": self.api}
        with (self.folder / "nursery.log").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.soak.chaos.nursery"], cwd=self.tree,
                env=self.environment | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True,
            )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "nursery.log says why"
        return process

    def submit(self, target: str, speed: str = REPLAY_SPEED) -> FlowRun:
        """Have the worker run the comparison."""
        deployment = self.ask("/deployments/name/compare/linen-vs-nnx")["id"]
        parameters = {"target": target, "more": {"overrides": list(SETTINGS)}}
        wanted = {
            "parameters": parameters,
            "state": {"type": "SCHEDULED"},
            "idempotency_key": uuid4().hex,  # makes a repeated request idempotent
            "job_variables": {"env": {"REPLAY_SPEED": speed}},
        }
        created: str = self.ask(f"/deployments/{deployment}/create_flow_run", json=wanted)["id"]
        return FlowRun(self, created)

    def state_of(self, flow_run: str) -> dict[str, Any]:
        """The flow run's state."""
        state: dict[str, Any] = self.ask(f"/flow_runs/{flow_run}")["state"]
        return state

    def kept(self, name: str) -> Kept:
        """The server or the worker."""
        return Kept.model_validate_json((self.state / f"{name}.json").read_text())

    def supervisors(self) -> list[psutil.Process]:
        """Return the supervisors of the running runs."""
        found = []
        for process, words in self._processes():
            with suppress(psutil.NoSuchProcess):
                if any(word.endswith("/supervise.py") for word in words) and process.name() != GUARD.decode():
                    found.append(process)
        return found

    def trainers(self) -> list[psutil.Process]:
        """Return the commands under these supervisors."""
        found = []
        for process in self.supervisors():
            with suppress(psutil.NoSuchProcess):
                found += [child for child in process.children() if child.name() != GUARD.decode()]
        return found

    def forked(self) -> list[psutil.Process]:
        """The commands that were forked."""
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._nursery.pid).children()
        return []

    def embedded(self) -> list[psutil.Process]:
        """The servers of commands."""
        return [process for process, words in self._processes() if "tasks.services.embedded_server" in words]

    def at_work(self) -> list[psutil.Process]:
        """Return every process of a run, a command or a flow run, without idle services."""
        waiting = {*members(self.kept("server")), *(process.pid for process in self.embedded())}
        waiting |= {self.kept("worker").pid, self._nursery.pid}
        return [process for process, _ in self._processes() if process.pid not in waiting]

    def _processes(self) -> Iterator[tuple[psutil.Process, list[str]]]:
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                if process.status() == psutil.STATUS_ZOMBIE:
                    continue
                words = process.cmdline()
                ours = any(str(self.out) in word for word in words)  # a job, whose environment lacks the place
                if ours or process.environ().get("PYTHONPATH") == str(self.tree):
                    yield process, words

    def kill(self, kind: str, number: int = signal.SIGKILL) -> float | None:
        """Signal all processes of a kind; return the time, or None if there are none. `flow`: forked commands."""
        find: dict[str, Callable[[], list[psutil.Process]]] = {
            "server": lambda: [psutil.Process(pid) for pid in members(self.kept("server"))],
            "worker": lambda: [psutil.Process(self.kept("worker").pid)],
            "flow": self.forked,
            "trainer": self.trainers,
            "supervisor": self.supervisors,
            "embedded": self.embedded,
        }
        moment = None
        for victim in find[kind]():
            with suppress(psutil.NoSuchProcess):
                victim.send_signal(number)
                moment = time.time()
        return moment


def wait_until(condition: Callable[[], Any], seconds: float, pause: float = 0.1) -> Any:
    """Return the condition's first true value; None if it stays false for `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(pause)
    return None
