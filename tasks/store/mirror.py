"""Turns a folder of this machine into the working copy of a store in a bucket: what is finished goes up, whole.

Trainers append to logs and local backends follow them, which objects cannot do: a run lives in the working copy while
it goes, and in the bucket once its record is written. Who works on a run, its plan and where its job lives are in the
bucket from the beginning, so that another machine can go on with it, or end it.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c

from tasks.store.atomic import StoreError
from tasks.store.claims import RECORD, WRITER, Claims
from tasks.store.disk import explain_full
from tasks.store.files import AlreadyThereError, Entry, Files
from tasks.store.names import safe_name

HANDLE = "handle.json"
OURS = ".handle.json"  # in a working copy: the handle of the last job that was begun here
ORIGIN = ".store"  # in a working copy: the address of its bucket
# they say that the rest is there
LAST = ("commit_success.txt", "log.txt", HANDLE, RECORD, "comparison.json", "index.html")
BEGUN = ("plan.json", "config.yml", "log.*.txt", HANDLE)  # of a run that has not ended
LEFT_OUT = "checkpoints/"  # of what is fetched: they are read where they lie
SENDERS = 10  # at once: as many connections as the client keeps
BLOCK = 1 << 20
ATTEMPTS = 5  # at a file that is replaced while it is read


@dataclass(frozen=True)
class Mirror:
    """A store's working copy in `folder` and its `files` in the bucket."""

    folder: Path
    files: Files

    @property
    def claims(self) -> Claims:
        """Who works on which run."""
        return Claims(self.folder, self.files)

    def fetch(self, name: str) -> bool:
        """Bring one file into the working copy, never holding it whole; whether the bucket has it."""
        for _ in range(ATTEMPTS):
            try:
                with self.files.open(name) as source:
                    self._keep(name, source)
                return True
            except FileNotFoundError:
                if self.files.stat(name) is None:
                    return False
        raise StoreError(f"{self.files.url(name)}: is changed faster than it can be read; try again")

    def _keep(self, name: str, source: BinaryIO) -> None:
        """Write a file of the working copy, whole or not at all; not down to the disk, for the bucket has it."""
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetched-") as aside:
                part = Path(aside) / "file"
                with part.open("wb") as file:
                    shutil.copyfileobj(source, file, BLOCK)
                os.replace(part, target)
        except FileNotFoundError:  # what is read was replaced meanwhile
            raise
        except OSError as error:
            other = f"{target}: cannot be written ({error.strerror or error}); make room there"
            raise StoreError(explain_full(target, error) or other) from error

    def refresh(self, name: str) -> bool:
        """Make one file of the working copy what it is in the bucket, if the bucket has it; whether it has."""
        entry = self.files.stat(name)
        return entry is not None and (not differs(self.folder / name, entry) or self.fetch(name))

    def match(self, path: Path) -> None:
        """Make a record in the working copy what it is in the bucket; it goes if somebody has removed it there."""
        if not self.refresh(path.relative_to(self.folder).as_posix()):
            path.unlink(missing_ok=True)

    def refresh_all(self, entries: Iterable[Entry]) -> None:
        """The same for many small files at once, each as a listing has it."""
        names = [entry.name for entry in entries if differs(self.folder / entry.name, entry)]
        for name, data in self.files.read_many(names).items():
            self._keep(name, io.BytesIO(data))

    def fetch_folder(self, name: str, *, without: str = LEFT_OUT) -> None:
        """Make the files of a folder in the working copy what they are in the bucket, but for those below `without`."""
        entries = [entry for entry in self.files.entries(name) if not entry.name.endswith(f"/{WRITER}")]
        kept = [e for e in entries if not (without and e.name.removeprefix(f"{name}/").startswith(without))]
        _in_order(self.fetch, [entry.name for entry in kept if differs(self.folder / entry.name, entry)])

    def push_folder(self, name: str, *, without: str = "", only: tuple[str, ...] = ("*",)) -> int:
        """Send what the bucket lacks; returns how many files. What says that the rest is there goes last.

        `without`: a file of the folder that stays here; `only`: what the names of all others look like.
        """
        there = {entry.name: entry for entry in self.files.entries(name)}
        found = [path for path in (self.folder / name).rglob("*") if path.is_file() and not path.name.startswith(".")]
        named = {path.relative_to(self.folder).as_posix(): path for path in found}
        wanted = [
            file
            for file, path in named.items()
            if file != f"{name}/{without}"
            and any(fnmatchcase(path.name, pattern) for pattern in only)
            and (file not in there or differs(path, there[file]))
        ]
        _in_order(lambda file: self.files.upload(file, named[file]), wanted)
        return len(wanted)

    def record(self, name: str, text: bytes) -> None:
        """Send a run's folder, and last its record: over the one that was there when the run was claimed, or none.

        Raises StoreError if somebody else has taken the run, or recorded it, meanwhile.
        """
        claim, place = self.claims.check(name), f"{name}/{RECORD}"
        self.push_folder(name, without=RECORD)
        before = claim.replaces if claim else _version(self.files.stat(place))
        try:
            self.files.write(place, text, create=before is None, version=before)
        except AlreadyThereError as error:
            raise StoreError(
                f"{self.files.url(place)}: somebody else has recorded this run meanwhile; the same command reads it"
            ) from error

    def claim(
        self,
        name: str,
        flow_runs: tuple[str, ...] = (),
        *,
        is_over: Callable[[tuple[str, ...]], bool] | None = None,
        checkpoints: bool = True,
    ) -> None:
        """Say in the bucket that a run is ours to write, over the record of it that is in the working copy, or none.

        What another machine has left of it comes into the working copy, with its checkpoints if they are wanted here.
        Raises TakenError that names who else writes it, StoreError if somebody has recorded it since it was looked for.
        """
        claim = self.claims.take(name, flow_runs, is_over=is_over)
        found = self.files.stat(f"{name}/{RECORD}")
        if _version(found) != claim.replaces or (found is not None and differs(self.folder / found.name, found)):
            self.claims.give_back(name)
            raise StoreError(
                f"{self.files.url(name)}: was recorded by somebody else meanwhile; the same command reads it"
            )
        handle = self.files.stat(f"{name}/{HANDLE}")
        if handle is not None and differs(self.folder / name / OURS, handle):  # another machine's job was the last
            self.fetch_folder(name, without="" if checkpoints else LEFT_OUT)

    def push_begun(self, name: str) -> None:
        """Send what another machine needs to go on with a run that has not ended, the handle of its job last.

        Raises StoreError if somebody else has taken the run over: then no job of it may be started here.
        """
        self.claims.check(name)
        self.push_folder(name, only=BEGUN)
        shutil.copyfile(self.folder / name / HANDLE, self.folder / name / OURS)


def name_store(folder: Path) -> str:
    """What people call the store whose files or working copy are in `folder`."""
    origin = folder / ORIGIN
    return origin.read_text(encoding="utf-8").strip() if origin.is_file() else str(folder)


def working_copy(url: str) -> Path:
    """Where this machine keeps its copy of the store at `url`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "maxview" / safe_name(url.removeprefix("gs://").strip("/"))


def _in_order(work: Callable[[str], Any], names: Iterable[str]) -> None:
    """Do the work for many files at once, but for those that mark something as complete only after the others."""
    with ThreadPoolExecutor(SENDERS) as pool:
        for _, group in groupby(sorted(names, key=_order), key=lambda name: _order(name)[0]):
            list(pool.map(work, group))


def _order(name: str) -> tuple[int, str]:
    """Whatever marks something as complete is sent after what it speaks of."""
    last = name.rpartition("/")[2]
    return (LAST.index(last) + 1 if last in LAST else 0, name)


def _version(entry: Entry | None) -> str | None:
    return entry.version if entry is not None else None


def differs(path: Path, entry: Entry) -> bool:
    """Whether a file of this machine is not what a listing of the bucket says."""
    if not path.is_file() or path.stat().st_size != entry.size:
        return True
    crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            crc = google_crc32c.extend(crc, block)
    return entry.crc32c != f"{crc:08x}"
