"""Turns a plan into a running job, or finds the one that an earlier flow left: started, attached to, or finished."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etils import epath

from tasks.launch.backend import Backend, Restarted
from tasks.launch.config import config_text
from tasks.launch.errors import LaunchError as LaunchError
from tasks.launch.supervised import Supervised
from tasks.records import BackendName, JobStatus, RunHandle, RunPlan
from tasks.resolve.checkout import check_checkout
from tasks.resolve.replay.play import TMP_MARK
from tasks.store import RunDirectory
from tasks.store.locks import hold

POLL_S = 0.2
LOCK = ".launch"


@dataclass(frozen=True)
class LaunchedRun:
    """A run whose job was started, or was found: all that is needed to follow it, and to read what it leaves."""

    plan: RunPlan
    directory: RunDirectory
    handle: RunHandle  # of its first attempt here; a job that was started again has a later one in its folder

    @property
    def checkpoints(self) -> Path | None:
        """The folder of its checkpoints on this machine; None if it saves none that can be verified."""
        return self.directory.checkpoints_of(self.plan)


def backend_of(name: BackendName) -> Backend[Any]:
    """What runs the jobs of a plan or handle that names this backend."""
    if name == "xpk":
        try:
            from tasks.launch.cluster import OnCluster  # its libraries take half a second to load
        except ModuleNotFoundError as error:
            raise LaunchError(
                f"{error.name} is not installed, which runs on clusters need: uv sync --extra k8s"
            ) from error
        return OnCluster()
    return Supervised()


def launch_or_attach(plan: RunPlan, directory: RunDirectory, *, continue_from: Path | None = None) -> LaunchedRun:
    """Start the plan's job, unless an earlier flow's is still running or has ended well without being recorded.

    `continue_from` is the folder of the other arm's run, whose checkpoint the trainer restores as a proof.
    Raises LaunchError, StoreError, CheckoutError.
    """
    directory.create()
    backend = backend_of(plan.backend)
    # of two callers that want the same run, one launches and the other finds it running
    with hold(directory.path / LOCK, lambda _: time.sleep(POLL_S)):
        earlier: RunHandle | None = backend.attach(plan, directory, directory.read_handle())
        if earlier is not None:
            return LaunchedRun(plan, directory, earlier)
        if plan.checkout is not None and plan.commit is not None:
            check_checkout(plan.checkout, plan.commit)
        extra = ("--continue-from", str(continue_from)) if continue_from else ()
        if has_checkpoint(plan, directory):
            extra = (*extra, *plan.files.resume)

        def keep(handle: RunHandle) -> None:
            directory.write_plan(plan)
            directory.write_config(config_text(plan))
            directory.write_handle(handle)

        return LaunchedRun(plan, directory, backend.launch(plan, directory, extra_argv=extra, keep=keep))


def has_checkpoint(plan: RunPlan, directory: RunDirectory) -> bool:
    """Whether an earlier attempt of the run left a checkpoint on this machine."""
    folder = directory.checkpoints_of(plan)
    return folder is not None and folder.is_dir() and any(TMP_MARK not in path.name for path in folder.iterdir())


def is_here(plan: RunPlan) -> bool:
    """Whether the plan's job is processes of this machine, which end with it and read and write its files."""
    return backend_of(plan.backend).here


def find_checkpoint(run: LaunchedRun, step: int) -> epath.Path:
    """Where the run's job leaves its checkpoint of a step."""
    return backend_of(run.plan.backend).find_checkpoint(run.plan, run.directory, step)


def proves_by_restoring(plan: RunPlan, before: RunPlan) -> bool:
    """Whether the run of `plan` restores a checkpoint of the run `before` it: both must be of our trainer."""
    return plan.arm != before.arm and plan.trainer == before.trainer == "maxview"


def status(handle: RunHandle) -> JobStatus:
    """How the job is doing now."""
    return backend_of(handle.backend).status(handle)


def follow(run: LaunchedRun, *, poll_s: float = POLL_S) -> Iterator[bytes | Restarted]:
    """The job's log from its start to its end, in pieces as they come. Afterwards `directory.log` holds all of it."""
    return backend_of(run.handle.backend).follow(run.plan, run.directory, run.handle, poll_s=poll_s)


def stop(handle: RunHandle) -> None:
    """End the job and everything that belongs to it; nothing if it has ended."""
    backend_of(handle.backend).stop(handle)
