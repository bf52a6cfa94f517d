"""The interface between flows and the backends, which run jobs."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from etils import epath

from configs.schema import Frozen
from tasks.records import DeathKind, JobCause, RunPlan
from tasks.store import RunDirectory

# The log line about an end by the platform; the run's record is read from it.
CAUSE_LINE = "maxview: the job was ended: {type}: {message}"
CAUSE_PATTERN = re.compile(rb"^maxview: the job was ended: ([^:\n]{1,80}): ([^\n]*)$", re.MULTILINE)
# The log line about the machines of a job, known to the platform alone.
PLACE_LINE = "maxview: the job ran on {place}"
PLACE_PATTERN = re.compile(rb"^maxview: the job ran on ([^\n]{1,300})$", re.MULTILINE)
# The log line in place of lines that could not be fetched.
LOST_LINE = "maxview: lines missing from {after} to {before}: {why}"
LOST_PATTERN = re.compile(rb"^maxview: lines missing from (\S+|the start) to (\S+|the end): [^\n]*$", re.MULTILINE)
WITHOUT = "; without it "  # marks an obstacle that only limits runs


class Restarted(Frozen):
    """The platform preempted the job; it was restarted from its last checkpoint with a new log."""

    job_name: str
    attempt: int
    cause: JobCause


class Backend[H](Protocol):
    """Runs jobs and finds them again. Handles are stored before a job begins, so that no job is lost."""

    here: bool  # its jobs are processes of this machine, end with it, and read and write its files

    def find_checkpoint(self, plan: RunPlan, directory: RunDirectory, step: int) -> epath.Path:
        """Return the path of a job's checkpoint of a step."""
        ...

    def launch(
        self, plan: RunPlan, directory: RunDirectory, *, extra_argv: tuple[str, ...], keep: Callable[[H], Any]
    ) -> H:
        """Start the plan's job; calls `keep` with its handle first. Raises LaunchError."""
        ...

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: H | None) -> H | None:
        """Return the job of an earlier flow if it still runs or has succeeded; else remove it and return None.

        `handle`: the handle that the earlier flow stored, if any.
        """
        ...

    def has_ended(self, handle: H) -> bool:
        """Return whether the job has ended; a job that waits for its machines has not."""
        ...

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: H, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        """Yield the log from start to end, in pieces as it grows. Afterwards `directory.log` holds all of it."""
        ...

    def stop(self, handle: H) -> None:
        """End the job and everything that belongs to it; does nothing if it has ended."""
        ...


class Launcher(NamedTuple):
    """A backend before its libraries are loaded."""

    load: Callable[[], Backend[Any]]  # raises LaunchError if its libraries are not installed
    find_obstacles: Callable[[Any], Iterator[str]]  # to runs with these settings, each with its remedy
    death_kinds: Mapping[str, DeathKind]  # the kind of death of each cause that it reports
