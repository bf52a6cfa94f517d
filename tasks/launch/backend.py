"""The interface between what a flow wants of a job and whatever runs it: a process of this machine, or a cluster."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from etils import epath

from configs.schema import Frozen
from tasks.records import JobCause, JobStatus, RunPlan
from tasks.store import RunDirectory

# what the log says of an end that the platform brought about, so that the run's record can lead back to it
CAUSE_LINE = "maxview: the job was ended: {type}: {message}"
CAUSE_PATTERN = re.compile(rb"^maxview: the job was ended: ([^:\n]{1,80}): ([^\n]*)$", re.MULTILINE)
# where lines of a log are missing that could not be fetched from anywhere
LOST_LINE = "maxview: lines missing from {after} to {before}: {why}"
LOST_PATTERN = re.compile(rb"^maxview: lines missing from (\S+|the start) to (\S+|the end): [^\n]*$", re.MULTILINE)


class Restarted(Frozen):
    """The platform took the job's machines away, and it was started again from its last checkpoint with a new log."""

    job_name: str
    attempt: int
    cause: JobCause


class Backend[H](Protocol):
    """Runs jobs and finds them again. Handles are written down before a job begins, so that none can be lost."""

    here: bool  # its jobs are processes of this machine, end with it, and read and write its files

    def find_checkpoint(self, plan: RunPlan, directory: RunDirectory, step: int) -> epath.Path:
        """Where a job leaves its checkpoint of a step."""
        ...

    def launch(
        self, plan: RunPlan, directory: RunDirectory, *, extra_argv: tuple[str, ...], keep: Callable[[H], Any]
    ) -> H:
        """Start the plan's job; `keep` is called with the handle before. Raises LaunchError."""
        ...

    def attach(self, plan: RunPlan, directory: RunDirectory, handle: H | None) -> H | None:
        """The job that an earlier flow left, if it still runs or ended well; one that did neither is cleared away.

        `handle` is what that flow wrote down, None if it wrote nothing.
        """
        ...

    def status(self, handle: H) -> JobStatus:
        """How the job is doing now."""
        ...

    def follow(
        self, plan: RunPlan, directory: RunDirectory, handle: H, *, poll_s: float
    ) -> Iterator[bytes | Restarted]:
        """The log from its start to the end, in pieces as they come. Afterwards `directory.log` holds all of it."""
        ...

    def stop(self, handle: H) -> None:
        """End the job and everything that belongs to it; nothing if it has ended."""
        ...
