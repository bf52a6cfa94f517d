"""Runs jobs of the batch backend: a shell script that writes the log."""

import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from tasks.launch.backend import Launcher
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory
from tests.standins.batch.handle import BatchHandle
from tests.standins.batch.settings import Batch


class Jobs:
    """See Backend."""

    def __init__(self) -> None:
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def launch(
        self, plan: RunPlan, directory: RunDirectory, *, extra_argv: tuple[str, ...], keep: Callable[[BatchHandle], Any]
    ) -> BatchHandle:
        assert isinstance(plan.launch, Batch)
        script = 'read _; echo "partition $1"; shift; "$@"; echo "EXIT_CODE=$?"'
        argv = ["sh", "-c", script, "job", plan.launch.partition, *plan.argv, *extra_argv]
        with directory.log.open("wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self._started[process.pid] = process
        handle = BatchHandle(backend="batch", job_name=plan.run_name, log=str(directory.log), pid=process.pid)
        keep(handle)
        process.communicate(b"\n")
        return handle

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: BatchHandle | None) -> BatchHandle | None:
        return handle

    def has_ended(self, handle: BatchHandle) -> bool:
        return self._started[handle.pid].poll() is not None

    def follow(self, plan: RunPlan, directory: RunDirectory, handle: BatchHandle, *, poll_s: float) -> Iterator[bytes]:
        self._started[handle.pid].wait()
        yield directory.log.read_bytes()

    def stop(self, handle: BatchHandle) -> None:
        self._started[handle.pid].kill()


JOBS = Jobs()


def find_obstacles(settings: Batch) -> Iterator[str]:
    """Yield the obstacles to a run in the partition."""
    if settings.partition not in os.environ.get("BATCH_PARTITIONS", ""):
        yield f"partition {settings.partition} does not exist: `sinfo` lists them"


LAUNCHER = Launcher(
    load=lambda: JOBS,
    find_obstacles=find_obstacles,
    death_kinds={"NodeFail": "preempted"},
    manifest=lambda plan, _: f"# partition {plan.launch.partition}\n",  # type: ignore[union-attr]
)
