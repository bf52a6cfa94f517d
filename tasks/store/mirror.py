"""Synchronises a local working copy with a store in a bucket.

Trainers append to logs, but an object in a bucket cannot be appended to. So a run on this machine writes to the working
copy. The run's files are uploaded at its end; its claim, plan, config, job handle and earlier logs at its start, so
that another machine can continue or stop the run.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import google_crc32c

from tasks.store.atomic import StoreError, explain_full, write_atomically
from tasks.store.claims import RECORD, WRITER, Claims
from tasks.store.files import AlreadyThereError, Entry, Files
from tasks.store.names import safe_name
from tasks.store.place import LEFT_OUT, Folder

DEFAULT_OUT = "maxview-out"  # the command line's default of --out
HANDLE = "handle.json"
COMPARISON = "comparison.json"
OURS = ".handle.json"  # in a run's folder of a working copy: the handle of the last job that this machine started
ORIGIN = ".store"  # file in a working copy with the address of its bucket
# transferred last, in this order, because they mark the other files as complete
LAST = ("commit_success.txt", "log.txt", HANDLE, RECORD, COMPARISON, "index.html")
BEGUN = ("plan.json", "config.yml", "log.*.txt", HANDLE)  # files of an unfinished run that are uploaded
SENDERS = 10  # concurrent transfers; the size of the client's connection pool
BLOCK = 1 << 20  # bytes per read
ATTEMPTS = 5  # to read a file that other machines replace


@dataclass(frozen=True)
class Mirror(Folder):
    """A store's working copy in `folder`, and its `files` in the bucket. A `name` is a path below both."""

    has_copy = True
    reaches_pods = True

    folder: Path
    files: Files
    recorded: set[str] = field(default_factory=set, compare=False, repr=False)  # runs that this process has recorded

    def files_below(self, path: Path) -> Files:
        return self.files

    def address_of(self, path: Path) -> str:
        return self.files.url(path.relative_to(self.folder).as_posix())

    def translate(self, text: str) -> str:
        here = str(self.folder)
        inside = text == here or text.startswith(f"{here}/")
        return self.files.root.rstrip("/") + text[len(here) :] if inside else text

    def link_to(self, path: Path) -> str:
        return "https://storage.cloud.google.com/" + quote(self.address_of(path).removeprefix("gs://"))

    def link_for_others(self, path: Path) -> str | None:
        return self.link_to(path)

    def link_from_page(self, path: Path, name: str, depth: int) -> str:
        return self.link_to(path)

    @property
    def claims(self) -> Claims:
        """The interface for claims on runs in the bucket."""
        return Claims(self.folder, self.files)

    def fetch(self, name: str) -> bool:
        """Download one file into the working copy; return whether the bucket has it."""
        for _ in range(ATTEMPTS):
            try:
                with self.files.open(name) as source:
                    self._keep(name, source)
                return True
            except FileNotFoundError:
                if self.files.stat(name) is None:
                    return False
        raise StoreError(f"{self.files.url(name)}: changes faster than it can be read; try again")

    def _keep(self, name: str, source: BinaryIO) -> None:
        """Write a file of the working copy atomically. No sync is needed, because the bucket has the file."""
        target = self.folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetched-") as aside:
                part = Path(aside) / "file"
                with part.open("wb") as file:
                    shutil.copyfileobj(source, file, BLOCK)
                os.replace(part, target)
        except FileNotFoundError:  # from `source`: the object was replaced meanwhile
            raise
        except OSError as error:
            other = f"{target}: cannot be written ({error.strerror or error}); make room there"
            raise StoreError(explain_full(target, error) or other) from error

    def bring(self, name: str) -> None:
        """Download a file of a run that has ended if the working copy differs; not if this process recorded the run."""
        if name.rpartition("/")[0] not in self.recorded or not (self.folder / name).is_file():
            self.refresh(name)

    def refresh(self, name: str) -> bool:
        """Download one file if the working copy differs; return whether the bucket has it."""
        entry = self.files.stat(name)
        return entry is not None and (not differs(self.folder / name, entry) or self.fetch(name))

    def match(self, path: Path) -> None:
        """Download the file if the working copy differs, or delete it from the working copy if the bucket lacks it."""
        if not self.refresh(path.relative_to(self.folder).as_posix()):
            path.unlink(missing_ok=True)

    def refresh_all(self, entries: Iterable[Entry]) -> None:
        """Download the files in `entries` for which the working copy differs. All of them are in memory at once."""
        names = [entry.name for entry in entries if differs(self.folder / entry.name, entry)]
        for name, data in self.files.read_many(names).items():
            self._keep(name, io.BytesIO(data))

    def refresh_matching(self, prefix: str, pattern: str) -> None:
        self.refresh_all(self.files.entries(prefix, pattern))

    def fetch_folder(self, name: str, *, without: str = LEFT_OUT) -> None:
        """Download a folder's files for which the working copy differs, except claims; the files in `LAST` last.

        without: prefix of the files in the folder to omit; empty: none.
        """
        entries = [entry for entry in self.files.entries(name) if not entry.name.endswith(f"/{WRITER}")]
        kept = [e for e in entries if not (without and e.name.removeprefix(f"{name}/").startswith(without))]
        _in_order(self.fetch, [entry.name for entry in kept if differs(self.folder / entry.name, entry)])

    def push_folder(
        self,
        name: str,
        *,
        without: str = "",
        only: tuple[str, ...] = ("*",),
        listed: Iterable[Entry] | None = None,
    ) -> int:
        """Upload a folder's visible files that differ from the bucket's, the files in `LAST` last; return their number.

        without: name of a file to omit; empty: none. only: glob patterns; a file name must match at least one.
        listed: the folder's files in the bucket, if they are known.
        """
        remote = {entry.name: entry for entry in (self.files.entries(name) if listed is None else listed)}
        local = [path for path in (self.folder / name).rglob("*") if path.is_file() and not path.name.startswith(".")]
        paths = {path.relative_to(self.folder).as_posix(): path for path in local}
        different = [
            file
            for file, path in paths.items()
            if file != f"{name}/{without}"
            and any(fnmatchcase(path.name, pattern) for pattern in only)
            and (file not in remote or differs(path, remote[file]))
        ]
        _in_order(lambda file: self.files.upload(file, paths[file]), different)
        return len(different)

    def create(self, path: Path, data: bytes) -> bool:
        try:
            self.files.write(path.relative_to(self.folder).as_posix(), data, create=True)
        except AlreadyThereError:
            return False
        return True

    def push(self, path: Path, *, is_new: bool = False) -> None:
        name = path.relative_to(self.folder).as_posix()
        if path.is_file():
            self.files.upload(name, path)
        else:
            self.push_folder(name, without=COMPARISON if is_new else "", listed=() if is_new else None)

    def end_run(self, name: str, record: Path, text: str) -> Path:
        self.record(name, text.encode())
        written = write_atomically(record, text)
        self.claims.give_back(name)
        return written

    def lock(self, path: Path, wait: Callable[[str], Any]) -> AbstractContextManager[None]:
        return nullcontext()

    def check_claim(self, name: str) -> None:
        self.claims.check(name)

    def record(self, name: str, text: bytes) -> None:
        """Upload a run's folder, then the record `text`, which replaces the version that the claim names.

        Without a claim, `text` replaces the current version. Raises StoreError if another machine has taken or
        recorded the run meanwhile.
        """
        claim, place = self.claims.check(name), f"{name}/{RECORD}"
        self.push_folder(name, without=RECORD)
        before = claim.replaces if claim else _version(self.files.stat(place))
        try:
            self.files.write(place, text, create=before is None, version=before)
        except AlreadyThereError as error:
            raise StoreError(
                f"{self.files.url(place)}: another machine has recorded this run meanwhile; the same command reads it"
            ) from error
        self.recorded.add(name)

    def claim(
        self,
        name: str,
        flow_runs: tuple[str, ...] = (),
        *,
        is_over: Callable[[tuple[str, ...]], bool] | None = None,
        checkpoints: bool = True,
    ) -> None:
        """Claim a run in the bucket, and download its files if another machine started its last job.

        checkpoints: whether to download checkpoints too. Raises TakenError if another machine has claimed the run,
        unless `is_over` returns True for the ids of its flow runs; and StoreError if the run's record differs from the
        working copy's, because another machine has written it meanwhile.
        """
        claim = self.claims.take(name, flow_runs, is_over=is_over)
        record = self.files.stat(f"{name}/{RECORD}")
        if _version(record) != claim.replaces or (record is not None and differs(self.folder / record.name, record)):
            self.claims.give_back(name)
            raise StoreError(
                f"{self.files.url(name)}: was recorded by another machine meanwhile; the same command reads it"
            )
        handle = self.files.stat(f"{name}/{HANDLE}")
        if handle is not None and differs(self.folder / name / OURS, handle):  # another machine started the last job
            self.fetch_folder(name, without="" if checkpoints else LEFT_OUT)

    def push_begun(self, name: str) -> None:
        """Upload the files that another machine needs to continue an unfinished run, the job's handle last.

        Raises StoreError if another machine has taken over the run; then no job may be started here.
        """
        self.claims.check(name)
        self.push_folder(name, only=BEGUN)
        shutil.copyfile(self.folder / name / HANDLE, self.folder / name / OURS)


def name_store(folder: Path) -> str:
    """Return the address of the store in `folder`: its bucket if the folder is a working copy, else the folder."""
    origin = folder / ORIGIN
    return origin.read_text(encoding="utf-8").strip() if origin.is_file() else str(folder)


def out_option(address: str) -> list[str]:
    """Return `["--out", address]`, or an empty list for the default store."""
    return [] if address == str(Path.cwd() / DEFAULT_OUT) else ["--out", address]


def working_copy(url: str) -> Path:
    """Return the folder of this machine's working copy of the store at `url`."""
    return working_copies() / safe_name(url.removeprefix("gs://").strip("/"))


def working_copies() -> Path:
    """Return the folder of this machine's working copies of buckets."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxview"


def _in_order(work: Callable[[str], Any], names: Iterable[str]) -> None:
    """Call `work` for many files concurrently, and afterwards for the files in LAST, in the order of LAST."""
    with ThreadPoolExecutor(SENDERS) as pool:
        for _, group in groupby(sorted(names, key=_order), key=lambda name: _order(name)[0]):
            list(pool.map(work, group))


def _order(name: str) -> tuple[int, str]:
    """Return a sort key: files in LAST come last, in the order of LAST."""
    last = name.rpartition("/")[2]
    return (LAST.index(last) + 1 if last in LAST else 0, name)


def _version(entry: Entry | None) -> str | None:
    return entry.version if entry is not None else None


def differs(path: Path, entry: Entry) -> bool:
    """Return whether a local file is missing, or differs from the bucket's in size or crc32c.

    Also True if the bucket's crc32c is unknown.
    """
    if not path.is_file() or path.stat().st_size != entry.size:
        return True
    crc = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            crc = google_crc32c.extend(crc, block)
    return entry.crc32c != f"{crc:08x}"
