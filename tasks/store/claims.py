"""Says in a bucket who works on a run, and over which version of its record, so that no two machines write one run."""

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from configs.schema import Frozen
from tasks.store.atomic import StoreError
from tasks.store.files import AlreadyThereError, Files

WRITER = "writer.json"
RECORD = "record.json"


class Claim(Frozen):
    """Who works on a run: a working copy on a machine, for flow runs that a Prefect server knows."""

    host: str
    pid: int
    folder: str  # the working copy
    since: str
    replaces: str | None = None  # the version of the record that the work replaces
    flow_runs: tuple[str, ...] = ()


class TakenError(StoreError):
    """Another machine works on a run."""

    def __init__(self, message: str, claim: Claim) -> None:
        super().__init__(message)
        self.claim = claim


class Claims:
    """The claims in the bucket `files`, as made by the working copy in `folder`."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder, self._files = folder, files

    def take(
        self, name: str, flow_runs: tuple[str, ...] = (), *, is_over: Callable[[tuple[str, ...]], bool] | None = None
    ) -> Claim:
        """Claim the folder `name` of a run, over the record of it that stands there now, or none.

        `is_over` says of the flow runs of another machine's claim whether they have ended, so that it counts no more.
        Raises TakenError that names who else writes the run.
        """
        known = self._files.stat(f"{name}/{RECORD}")
        ours = Claim(
            host=socket.gethostname(),
            pid=os.getpid(),
            folder=str(self._folder),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            replaces=known.version if known else None,
            flow_runs=flow_runs,
        )
        place, text = f"{name}/{WRITER}", ours.model_dump_json().encode()
        try:
            self._files.write(place, text, create=True)
            return ours
        except AlreadyThereError:
            found = self._files.stat(place)
        if found is None:  # given back meanwhile
            self._files.write(place, text, create=True)
            return ours
        other = self._read(name)
        # an earlier flow on this working copy: the lock of its folder keeps two of them apart
        if other is not None and not self._is_ours(other) and not (is_over and is_over(other.flow_runs)):
            raise TakenError(
                f"{self._files.url(name)}: is being written on {other.host} since {other.since} (process "
                f"{other.pid}): wait for it, or train anew with --fresh; if that machine is gone: compare "
                "with --take-over goes on with what it has left",
                other,
            )
        self._files.write(place, text, version=found.version)
        return ours

    def check(self, name: str) -> Claim | None:
        """Our claim on the run, None without one. Raises StoreError if somebody else has taken the run meanwhile."""
        other = self._read(name)
        if other is not None and not self._is_ours(other):
            raise StoreError(f"{self._files.url(name)}: was taken over by {other.host}, which goes on with it")
        return other

    def give_back(self, name: str) -> None:
        """Nobody works on the run any more."""
        self._files.delete(f"{name}/{WRITER}")

    def _read(self, name: str) -> Claim | None:
        place = f"{name}/{WRITER}"
        try:
            return Claim.model_validate_json(self._files.read(place))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise StoreError(
                f"{self._files.url(place)}: is damaged; if nobody works on the run: "
                f"gcloud storage rm {self._files.url(place)}"
            ) from error

    def _is_ours(self, claim: Claim) -> bool:
        return (claim.host, claim.folder) == (socket.gethostname(), str(self._folder))
