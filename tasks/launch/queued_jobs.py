"""Launches, finds, ends and restarts jobs that wait in a queue: what the backends with a queue share.

A job's state is in the service, so a flow needs only the handle to continue.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from configs.backends.queue import QueueSettings
from tasks.launch.backend import LaunchError, NotSubmitted, Restarted
from tasks.launch.job import has_checkpoint
from tasks.launch.logs import open_locked, rename_earlier_log
from tasks.launch.queued_attempt import QueuedAttempt
from tasks.launch.queued_handle import QueuedHandle
from tasks.records.plan import JobCause, RunPlan
from tasks.records.run_end import DeathKind
from tasks.store.directories import RunDirectory


class QueuedJobs[H: QueuedHandle](ABC):
    """See Backend. `death_kinds`: as of its Launcher; a run is restarted after a cause of the kind `preempted`."""

    death_kinds: Mapping[str, DeathKind]

    def launch(
        self,
        plan: RunPlan,
        directory: RunDirectory,
        *,
        extra_argv: tuple[str, ...] = (),
        keep: Callable[[H], Any] = lambda _: None,
        tries: int = 1,
    ) -> H:
        """Return once the service has the job; it may not run yet. tries: number of this start; 1: not a restart."""
        common = {"log": str(directory.log), "created": time.time(), "tries": tries, "extra_argv": extra_argv}
        handle = self.prepare(plan, directory, {"backend": plan.backend, **common})
        os.close(open_locked(directory.log))
        rename_earlier_log(directory.log)
        keep(handle)
        try:
            return self.submit(plan, directory, handle, keep)
        except NotSubmitted:
            raise
        except BaseException:  # the job may exist nevertheless
            self.stop(handle)
            raise

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: H | None) -> H | None:
        found = None if handle is None else self.find_usable(directory, handle)
        if handle is not None and found is None:
            self.stop(handle)
        return found

    def stop(self, handle: H) -> None:
        """End every start of the run. Raises LaunchError if the service cannot be reached."""
        try:
            self.end(handle)
        except LaunchError as error:
            raise LaunchError(f"{error}; the job may still run, `{handle.command_to_end}` ends it") from error

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: H, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        assert isinstance(plan.launch, QueueSettings)
        while True:
            end = yield from self.attempt(plan, directory, handle).follow(poll_s)
            cause = self.find_restart(plan, directory, end)
            if cause is None or handle.tries >= plan.launch.attempts:
                return
            directory.check_claim()  # if another machine took the run over, its job has the same name
            self.stop(handle)
            again = plan.files.resume if has_checkpoint(plan, directory) else ()
            extra = handle.extra_argv if handle.extra_argv[-len(again) :] == again else (*handle.extra_argv, *again)
            handle = self.launch(plan, directory, extra_argv=extra, keep=directory.write_handle, tries=handle.tries + 1)
            yield Restarted(job_name=handle.job_name, attempt=handle.tries, cause=cause)

    def find_restart(self, plan: RunPlan, directory: RunDirectory, cause: JobCause | None) -> JobCause | None:
        """Return why the run is restarted after its job ended by `cause`; None: it has ended."""
        return cause if cause is not None and self.death_kinds.get(cause.type) == "preempted" else None

    @abstractmethod
    def prepare(self, plan: RunPlan, directory: RunDirectory, common: dict[str, Any]) -> H:
        """Return the handle of a new job, with the fields `common`. Raises LaunchError if the plan cannot be run."""

    @abstractmethod
    def submit(self, plan: RunPlan, directory: RunDirectory, handle: H, keep: Callable[[H], Any]) -> H:
        """Create the job and return its handle. Raises LaunchError; NotSubmitted if there certainly is no job."""

    @abstractmethod
    def find_usable(self, directory: RunDirectory, handle: H) -> H | None:
        """Return the handle, completed, if its job still runs or has succeeded; else None."""

    @abstractmethod
    def attempt(self, plan: RunPlan, directory: RunDirectory, handle: H) -> QueuedAttempt:
        """Return the object that follows the job."""

    @abstractmethod
    def has_ended(self, handle: H) -> bool: ...

    @abstractmethod
    def end(self, handle: H) -> None:
        """End every start of the run, and wait until it has ended. Raises LaunchError."""
