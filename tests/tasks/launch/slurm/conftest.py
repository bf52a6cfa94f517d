"""A real SLURM on loopback, and plans for its partition."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.backends.slurm import Slurm
from configs.comparison import load_target
from tasks.ingest.run_record import read_run_log as build_tables
from tasks.launch import job
from tasks.launch.backend import LaunchedRun, Restarted
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tests.standins.slurm.cluster import Cluster, missing_daemons, wait_for

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = missing_daemons()
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install slurm-wlm munge")
    sample = tmp_path_factory.mktemp("sample") / "log.txt"
    sample.write_text("XPK Start: \n")
    build_tables(sample)  # polars keeps descriptors of its first tables, and the tests count descriptors
    running = Cluster(tmp_path_factory.mktemp("slurm"))
    yield running
    running.close()


@pytest.fixture
def slurm(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster without jobs; its jobs are ended when the test ends. Looks are frequent, and limits short."""
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    monkeypatch.setattr("tasks.launch.patience.LOOK_EVERY_S", 0.3)
    monkeypatch.setattr("tasks.launch.slurm.attempt.LATE_S", 4.0)
    monkeypatch.setattr("tasks.launch.slurm.attempt.BLOCKED_S", 1.0)
    yield cluster
    cluster.start_missing()
    cluster.tool("scancel", "--me", "--signal=KILL", "--full")
    cluster.tool("scancel", "--me")
    wait_for(lambda: not cluster.tool("squeue", "--noheader").strip())


@pytest.fixture
def slurm_plan(make_plan: Callable[..., RunPlan]) -> Callable[..., RunPlan]:
    """slurm_plan(code, *words, settings={…}, **plan): a plan for the partition `main`."""

    def make(code: str, *words: str, settings: dict[str, Any] | None = None, **changes: Any) -> RunPlan:
        launch = Slurm(**({"partition": "main"} | (settings or {})))
        return make_plan(code, *words, backend="slurm", launch=launch, **({"passed_on": ("PATH", "HOME")} | changes))

    return make


def obstacles(settings: Slurm) -> list[str]:
    """The obstacles to runs, as `maxview doctor` shows them."""
    target = load_target("slurm")
    launch = settings.model_dump(exclude={"backend"}, exclude_none=True)
    return list(job.find_obstacles(target.replace(launch=launch), {}))


class Followed(threading.Thread):
    """A job that a thread follows to its end."""

    def __init__(self, plan: RunPlan, directory: RunDirectory) -> None:
        super().__init__(daemon=True)
        self.run_: LaunchedRun = job.launch_or_attach(plan, directory)
        self.log = b""
        self.restarts: list[Restarted] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for piece in job.follow(self.run_):
                if isinstance(piece, Restarted):
                    self.restarts.append(piece)
                    self.log = b""
                else:
                    self.log += piece
        except BaseException as error:
            self.error = error

    @property
    def job_id(self) -> str:
        """The number of the job in SLURM."""
        return str(self.run_.handle.job_id)  # type: ignore[attr-defined]

    def wait_for(self, text: bytes) -> "Followed":
        """Wait until the log contains a text."""
        wait_for(lambda: text in self.log or not self.is_alive())
        assert text in self.log, (self.log, self.error)
        return self

    def end(self, seconds: float = 90.0) -> str:
        """Wait for the end; the log."""
        self.join(seconds)
        assert not self.is_alive(), self.log
        if self.error is not None:
            raise self.error
        assert self.log == self.run_.directory.log.read_bytes()
        return self.log.decode()


@pytest.fixture
def follow(slurm: Cluster, directory: RunDirectory) -> Callable[[RunPlan], Followed]:
    """follow(plan): its job, launched and followed."""
    return lambda plan: Followed(plan, directory)
