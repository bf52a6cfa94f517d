"""Claims runs in a bucket for one working copy of a machine, so that no two machines write the same run.

A claim is the file `writer.json` in the run's folder. It names the machine, its process, and the version of the run's
record that will be replaced.
"""

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from configs.frozen import Frozen
from tasks.store.atomic import StoreError
from tasks.store.files import AlreadyThereError, Files

WRITER = "writer.json"
RECORD = "record.json"


class Claim(Frozen):
    """A claim on a run, stored as `writer.json`: which process on which machine is writing the run."""

    host: str
    pid: int
    folder: str  # path of the machine's working copy of the store
    since: str  # ISO 8601
    replaces: str | None = None  # version of the record that will be replaced; None: there was no record
    flow_runs: tuple[str, ...] = ()  # ids of the Prefect flow runs that write the run


class TakenError(StoreError):
    """Another machine, or another working copy of this machine, has claimed the run."""

    def __init__(self, message: str, claim: Claim) -> None:
        super().__init__(message)
        self.claim = claim


class Claims:
    """Takes, checks and releases claims of the working copy in `folder` on runs in the bucket `files`."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder, self._files = folder, files

    def take(
        self, name: str, flow_runs: tuple[str, ...] = (), *, is_over: Callable[[tuple[str, ...]], bool] | None = None
    ) -> Claim:
        """Claim the run in the folder `name`, and return the claim with the current version of the run's record.

        Replaces an earlier claim of this working copy. Another working copy's claim is replaced if `is_over` returns
        True for the ids of its flow runs; otherwise TakenError is raised, which names the other machine. Raises
        AlreadyThereError if the claim changes meanwhile.
        """
        record = self._files.stat(f"{name}/{RECORD}")
        ours = Claim(
            host=socket.gethostname(),
            pid=os.getpid(),
            folder=str(self._folder),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            replaces=record.version if record else None,
            flow_runs=flow_runs,
        )
        place, text = f"{name}/{WRITER}", ours.model_dump_json().encode()
        try:
            self._files.write(place, text, create=True)
            return ours
        except AlreadyThereError:
            current = self._files.stat(place)
        if current is None:  # the other claim has just been released
            self._files.write(place, text, create=True)
            return ours
        other = self._read(name)
        # This working copy may replace its own claim: the lock in the run's folder already excludes a second flow.
        if other is not None and not self._is_ours(other) and not (is_over and is_over(other.flow_runs)):
            raise TakenError(
                f"{self._files.url(name)}: is being written on {other.host} since {other.since} (process "
                f"{other.pid}): wait for it, or train anew with --fresh; if that machine is gone: compare "
                "with --take-over goes on with what it has left",
                other,
            )
        self._files.write(place, text, version=current.version)
        return ours

    def check(self, name: str) -> Claim | None:
        """Return this working copy's claim on the run; None without one. Raises StoreError if another copy has one."""
        other = self._read(name)
        if other is not None and not self._is_ours(other):
            raise StoreError(f"{self._files.url(name)}: was taken over by {other.host}, which goes on with it")
        return other

    def give_back(self, name: str) -> None:
        """Delete the claim on the run, also another machine's."""
        self._files.delete(f"{name}/{WRITER}")

    def _read(self, name: str) -> Claim | None:
        place = f"{name}/{WRITER}"
        try:
            return Claim.model_validate_json(self._files.read(place))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise StoreError(
                f"{self._files.url(place)}: is damaged; if no machine works on the run: "
                f"gcloud storage rm {self._files.url(place)}"
            ) from error

    def _is_ours(self, claim: Claim) -> bool:
        return (claim.host, claim.folder) == (socket.gethostname(), str(self._folder))
