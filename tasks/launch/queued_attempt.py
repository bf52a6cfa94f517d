"""Follows one start of a run whose job waits in a queue, from its submission to its end."""

import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing

from tasks.launch import patience
from tasks.launch.backend import PLACE_LINE
from tasks.launch.gathered_log import GatheredLog
from tasks.launch.logs import read_all, read_exit_code
from tasks.launch.patience import NotAnswering, given_up
from tasks.records.plan import JobCause
from tasks.store.directories import RunDirectory

type End = tuple[JobCause | None, int | None]  # why the job was ended from outside, and the exit code, if known


class QueuedAttempt(ABC):
    """One start of a run. Decides when to read the job's state and log; a backend reads them."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.place = ""  # where the job ran, for the log; "": not known yet
        self.silent_since: float | None = None  # monotonic time of the first unanswered request; None: no outage
        self.over_since: float | None = None  # monotonic time of the first look at the job's end; None: not over
        self._not_before = 0.0  # monotonic time of the next request that an overloaded service allows

    def follow(self, poll_s: float) -> Generator[bytes, None, JobCause | None]:
        """Yield the log as it grows; return why the job was ended from outside, None if the trainer ended by itself.

        From outside: by the service, by a person, or by one of maxview's time limits.
        """
        if self.is_gone() and read_exit_code(self.directory.log) is not None:
            yield from read_all([self.directory.log])  # an earlier flow has read it to its end
            self.clean_up()
            return None
        with closing(GatheredLog(self.directory.log)) as log:
            looked, limit = 0.0, None
            while limit is None and not self.is_complete():
                yield from self.read_new(log, poll_s)
                if time.monotonic() - looked >= patience.LOOK_EVERY_S:
                    self.look()
                    looked, limit = time.monotonic(), self.find_limit()
            cause, exit_code = yield from self.read_last(log, limit)
            if self.place:
                yield from log.note(PLACE_LINE.format(place=self.place))
            yield from log.close_frame(cause, exit_code)
        self.clean_up()
        return cause

    def look(self) -> None:
        """Update the job's state without waiting. Raises LaunchError after too long an outage of the service."""
        if time.monotonic() < self._not_before:
            return
        try:
            over, self.silent_since = self.read_state(), None
            self.over_since = (self.over_since or time.monotonic()) if over else None
        except NotAnswering as error:
            now = time.monotonic()
            self.silent_since = self.silent_since or now
            self._not_before = now + error.wait_s
            if now - self.silent_since > patience.PATIENCE_S:
                raise given_up(error) from error

    @abstractmethod
    def is_gone(self) -> bool:
        """Return whether the job, or its own log, does not exist any more."""

    @abstractmethod
    def read_state(self) -> bool:
        """Read the job's state; return whether the job is over. Raises NotAnswering, LaunchError."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Return whether the job's end is known, or will not become known by waiting."""

    @abstractmethod
    def find_limit(self) -> JobCause | None:
        """Return why a job that has not ended must be ended, such as a time limit."""

    @abstractmethod
    def read_new(self, log: GatheredLog, poll_s: float) -> Iterator[bytes]:
        """Add the new lines to the log and yield them; wait `poll_s` seconds."""

    @abstractmethod
    def read_last(self, log: GatheredLog, limit: JobCause | None) -> Generator[bytes, None, End]:
        """Add the rest of the log and yield it; first end the job if it has reached a limit."""

    @abstractmethod
    def clean_up(self) -> None:
        """Tidy up after the log is complete."""
