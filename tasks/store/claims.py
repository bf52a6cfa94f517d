"""Marks runs in a bucket as claimed by one machine, over one version of the record, so that no two machines write
one."""

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
    """The owner of a run: a working copy on a machine, and its Prefect flow runs."""

    host: str
    pid: int
    folder: str  # the working copy
    since: str
    replaces: str | None = None  # the version of the record that will be replaced
    flow_runs: tuple[str, ...] = ()


class TakenError(StoreError):
    """Another machine works on a run."""

    def __init__(self, message: str, claim: Claim) -> None:
        super().__init__(message)
        self.claim = claim


class Claims:
    """The claims of the working copy in `folder` on runs in the bucket `files`."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder, self._files = folder, files

    def take(
        self, name: str, flow_runs: tuple[str, ...] = (), *, is_over: Callable[[tuple[str, ...]], bool] | None = None
    ) -> Claim:
        """Claim the folder `name` of a run, and remember the present version of its record.

        `is_over`: whether the flow runs of another machine's claim have ended, so that it no longer counts. Raises
        TakenError naming the other machine.
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
        if found is None:  # released meanwhile
            self._files.write(place, text, create=True)
            return ours
        other = self._read(name)
        # the folder's lock excludes a second flow on this working copy
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
        """Return our claim on the run; None without one. Raises StoreError if another machine has taken it."""
        other = self._read(name)
        if other is not None and not self._is_ours(other):
            raise StoreError(f"{self._files.url(name)}: was taken over by {other.host}, which goes on with it")
        return other

    def give_back(self, name: str) -> None:
        """Release our claim on the run."""
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
