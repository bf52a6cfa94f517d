"""The launcher of the backend that runs trainers as processes on this machine."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tasks.launch.backend import Launcher
from tasks.launch.local import process_group
from tasks.launch.local.handle import LocalHandle
from tasks.launch.logs import open_locked, read_exit_code, rename_earlier_log
from tasks.records.plan import RunPlan
from tasks.store.directories import RunDirectory

READ_BYTES = 1 << 20  # per read of a log


class Supervised:
    """Runs jobs as process groups under `supervise.py`. The processes write to the log themselves."""

    def launch(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        extra_argv: tuple[str, ...] = (),
        keep: Callable[[LocalHandle], Any] = lambda _: None,
    ) -> LocalHandle:
        """Also raises LaunchError if another process writes the log."""
        os.close(open_locked(directory.log))
        rename_earlier_log(directory.log)
        return process_group.launch(plan, directory.log, extra_argv=extra_argv, keep=keep)

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: LocalHandle | None) -> LocalHandle | None:
        if handle is None:
            return None
        writes_here = Path(handle.log) == directory.log  # False: the job writes to another folder
        if (writes_here and process_group.is_alive(handle)) or read_exit_code(directory.log) == 0:
            return handle
        process_group.stop(handle)  # if only its supervisor was killed, its processes would write into the new run
        return None

    def has_ended(self, handle: LocalHandle) -> bool:
        return not process_group.is_alive(handle)

    def follow(self, plan: RunPlan, directory: RunDirectory, handle: LocalHandle, *, poll_s: float) -> Iterator[bytes]:
        # not `handle.log`, which is another machine's path if the run was downloaded
        return read_growing(directory.log, lambda: process_group.is_alive(handle), poll_s=poll_s)

    def stop(self, handle: LocalHandle) -> None:
        process_group.stop(handle)


def read_growing(path: Path, is_alive: Callable[[], bool], *, poll_s: float) -> Iterator[bytes]:
    """Yield a file's bytes from its start, waiting for more while its writer lives."""
    while not path.exists() and is_alive():
        time.sleep(poll_s)
    if not path.exists():
        return
    with path.open("rb") as file:
        while True:
            alive = is_alive()  # checked before the read, so that the writer's last bytes are not missed
            while chunk := file.read(READ_BYTES):
                yield chunk
            if not alive:
                return
            time.sleep(poll_s)


LAUNCHER = Launcher(load=Supervised, find_obstacles=lambda _: iter(()), death_kinds={})
