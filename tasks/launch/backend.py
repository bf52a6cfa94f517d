"""The interface of the backends, which run jobs; its exception, and the lines that backends add to a job's log.

A job executes one planned run: a process on this machine, or a workload on a cluster.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from configs.frozen import Frozen
from tasks.records.plan import JobCause, RunHandle, RunPlan
from tasks.records.run_end import DeathKind
from tasks.store.directories import RunDirectory

# The log line about a job that was ended from outside: by the platform, a user or a time limit. The run's record is
# made from the log, so the cause must be there.
CAUSE_LINE = "maxview: the job was ended: {type}: {message}"
CAUSE_PATTERN = re.compile(rb"^maxview: the job was ended: ([^:\n]{1,80}): ([^\n]*)$", re.MULTILINE)
# The log line about a job's machines, which its trainer does not print.
PLACE_LINE = "maxview: the job ran on {place}"
PLACE_PATTERN = re.compile(rb"^maxview: the job ran on ([^\n]{1,300})$", re.MULTILINE)
# The log line in place of lines that could not be fetched.
LOST_LINE = "maxview: lines missing from {after} to {before}: {why}"
LOST_PATTERN = re.compile(rb"^maxview: lines missing from (\S+|the start) to (\S+|the end): [^\n]*$", re.MULTILINE)
WITHOUT = "; without it "  # in the text of an obstacle that does not prevent runs, before the obstacle's effect


class LaunchError(RuntimeError):
    """A job cannot be started, followed or ended. The message is for the user."""


class NotSubmitted(LaunchError):
    """The service certainly has no job: it has refused it, or its commands are not installed."""


class Restarted(Frozen):
    """The job lost its machines, for example by a preemption, and was restarted with a new log."""

    job_name: str  # of the new job
    attempt: int  # number of the new job's start since a flow launched the run; the first start is 1
    cause: JobCause  # why the previous job ended


class Backend[H](Protocol):
    """Runs jobs and finds them again. A job's handle is stored before the job begins, so that no job is lost."""

    def launch(
        self, plan: RunPlan, directory: RunDirectory, *, extra_argv: tuple[str, ...], keep: Callable[[H], Any]
    ) -> H:
        """Call `keep` with the job's handle, then start the job with `extra_argv` appended. Raises LaunchError.

        Returns the handle.
        """
        ...

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: H | None) -> H | None:
        """Return an earlier flow's handle if its job still runs or has succeeded; else end the job and return None.

        `handle`: the handle that the earlier flow stored; None: it stored none.
        """
        ...

    def has_ended(self, handle: H) -> bool:
        """Return whether the job has ended; a job that waits for its machines has not."""
        ...

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: H, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        """Yield the log from start to end, in pieces as it grows. Afterwards `directory.log` is complete.

        After a restart of the job, yields `Restarted`, then the new log.
        """
        ...

    def stop(self, handle: H) -> None:
        """End the job and everything that belongs to it, even if the job itself has ended."""
        ...


class Launcher(NamedTuple):
    """Access to a backend without importing its libraries."""

    load: Callable[[], Backend[Any]]  # raises LaunchError if its libraries are not installed
    # settings → the obstacles to runs, each with its remedy; raises LaunchError with a further one that hides others
    find_obstacles: Callable[[Any], Iterator[str]]
    death_kinds: Mapping[str, DeathKind]  # type of a JobCause → kind of death
    # plan, run folder → the text that `launch` would submit; raises LaunchError. None: the backend submits no text.
    manifest: Callable[[RunPlan, RunDirectory], str] | None = None


@dataclass(frozen=True)
class LaunchedRun:
    """A run whose job was started or found: its plan, folder and handle."""

    plan: RunPlan
    directory: RunDirectory
    handle: RunHandle  # of the attempt that was started or found; a later restart writes a new handle into the folder

    @property
    def checkpoints(self) -> Path | None:
        """The folder of the run's checkpoints; None if the run saves none in Orbax's format."""
        return self.directory.checkpoints_of(self.plan)
