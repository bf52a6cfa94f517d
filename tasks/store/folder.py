"""Turns an output folder into a store: checks what may be done there and finds the run and comparison folders in it."""

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal
from urllib.parse import quote

from tasks.store.atomic import StoreError, write_atomically
from tasks.store.directories import ComparisonDirectory, RunDirectory
from tasks.store.disk import explain_full
from tasks.store.files import Files, LocalFiles
from tasks.store.mirror import ORIGIN, Mirror, working_copy
from tasks.store.names import check_name


@dataclass(frozen=True)
class Store:
    """An output folder. Names are checked, so no run, comparison or case can stand outside it."""

    path: Path  # of a store in a bucket: this machine's working copy
    mirror: Mirror | None = None
    writable: bool = True  # what was opened for reading alone may not be

    def run(self, run_name: str) -> RunDirectory:
        """The folder of a run, whether it exists or not; StoreError for a name that is no folder name."""
        return RunDirectory(self.path / "runs" / check_name(run_name, "run name"), self.mirror)

    def run_of_log(self, log: str) -> RunDirectory:
        """The folder of the run that a record names by its log's path, wherever the store was when it was written."""
        return self.run(PurePath(log).parent.name)

    @property
    def files(self) -> Files:
        """The store's files by name."""
        return self.mirror.files if self.mirror else LocalFiles(self.path)

    @property
    def address(self) -> str:
        """What people call the store, and what opens it again: an absolute path, or gs://bucket/prefix."""
        return self.files.root

    def address_of(self, path: Path) -> str:
        """What people call a file of the store."""
        return self.mirror.files.url(path.relative_to(self.path).as_posix()) if self.mirror else str(path)

    def link_to(self, path: Path) -> str:
        """What opens a file of the store in a browser. Of a bucket: for everybody who may read it, with their login."""
        if self.mirror is None:
            return path.as_uri()
        return "https://storage.cloud.google.com/" + quote(self.address_of(path).removeprefix("gs://"))

    def refresh(self, kind: Literal["runs", "comparisons"]) -> None:
        """Make the records of all runs or comparisons in the working copy what they are in the bucket, all at once."""
        patterns = {"runs": "runs/*/record.json", "comparisons": "comparisons/*/*/*/comparison.json"}
        if self.mirror is not None:
            self.mirror.refresh_all(self.mirror.files.entries(kind, patterns[kind]))

    def push(self, folder: Path) -> None:
        """A folder or file of the store is finished: where the store is a bucket, it goes there."""
        if self.mirror is None:
            return
        if folder.is_file():
            self.mirror.files.upload(folder.relative_to(self.path).as_posix(), folder)
        else:
            self.mirror.push_folder(folder.relative_to(self.path).as_posix())

    def comparison(self, comparison: str, case: str, id: str) -> ComparisonDirectory:
        """The folder of a comparison, whether it exists or not; StoreError for names that are no folder names."""
        parts = check_name(comparison, "comparison"), check_name(case, "case"), check_name(id, "comparison id")
        return ComparisonDirectory(self.path.joinpath("comparisons", *parts), self.mirror)

    def runs(self) -> Iterator[RunDirectory]:
        """Every run folder that holds a plan or a record, by name: one listing, however many there are."""
        if self.mirror is None:
            for path in sorted((self.path / "runs").glob("*")):
                directory = RunDirectory(path)
                if directory.plan.is_file() or directory.record.is_file():
                    yield directory
            return
        kinds = ("runs/*/plan.json", "runs/*/record.json")
        found = {entry.name.split("/")[1] for kind in kinds for entry in self.mirror.files.entries("runs", kind)}
        for name in sorted(found):
            yield self.run(name)

    def comparisons(self) -> Iterator[ComparisonDirectory]:
        """Every folder that holds a finished comparison, by comparison, case and id."""
        for entry in self.files.entries("comparisons", "comparisons/*/*/*/comparison.json"):
            yield ComparisonDirectory((self.path / entry.name).parent, self.mirror)


def open_store(out: str | Path, *, reading: bool = False) -> Store:
    """The store in the folder `out`, which is made if it is missing, or in the bucket gs://…/….

    Raises StoreError, and leaves nothing behind, if files cannot be written there. `reading`: what is there is only
    read, so nothing is made, and no more is asked for; whether files could be written is in `writable`.
    """
    if str(out).startswith("gs://"):
        return _open_bucket(str(out), reading=reading)
    path = _local(out)
    if reading:
        return _look_into(path)
    made = [p for p in (path, *path.parents) if not os.path.exists(p)]  # never raises, however long the name
    try:
        path.mkdir(parents=True, exist_ok=True)
        _try_to_write(path)
    except OSError as error:
        for folder in made:
            if os.path.isdir(folder):
                folder.rmdir()
        raise _not_writable(path, error) from error
    return Store(path)


def check_place(out: str | Path) -> tuple[str, Path]:
    """What people call the store that `out` would be, and the folder of this machine whose disk its runs would fill.

    Nothing is made: of a folder that is missing it is the nearest one above it. Raises StoreError as `open_store` does.
    """
    if str(out).startswith("gs://"):
        from tasks.store.gcs import GcsFiles  # takes a second to load

        files = GcsFiles(str(out))
        files.check_access(reading=False)
        return files.root, _nearest(working_copy(files.root))
    path = _local(out)
    near = _nearest(path)
    try:
        with suppress(FileNotFoundError):
            path.stat()  # says if it can be no name
        _try_to_write(near)
    except OSError as error:
        raise _not_writable(path, error) from error
    return str(path), near


def _local(out: str | Path) -> Path:
    if not str(out).strip():
        raise StoreError("--out is empty: name a folder for runs, records and pages")
    if "://" in str(out) or str(out).startswith("gs:"):
        raise StoreError(f"{out}: only local folders and gs:// can be the output folder; give one with --out")
    return Path(out).expanduser().absolute()


def _nearest(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))


def _try_to_write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"x")
        probe.flush()


def _not_writable(path: Path, error: OSError) -> StoreError:
    reason = error.strerror or str(error)
    other = f"output folder {path}: files cannot be written there ({reason}); choose another one with --out"
    return StoreError(explain_full(path, error) or other)


def _look_into(path: Path) -> Store:
    if not os.path.isdir(path):  # never raises, however long the name
        raise StoreError(f"output folder {path}: there is no such folder; name one that maxview has written with --out")
    if not os.access(path, os.R_OK | os.X_OK):
        raise StoreError(
            f"output folder {path}: you may not read it; let its owner type: chmod a+rX {shlex.quote(str(path))}"
        )
    return Store(path, writable=os.access(path, os.W_OK))


def _open_bucket(url: str, *, reading: bool) -> Store:
    from tasks.store.gcs import GcsFiles  # Google's client takes a second to load, which local stores need not wait for

    files = GcsFiles(url)
    writable = files.check_access(reading=reading)
    folder = working_copy(files.root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ORIGIN, files.root)
    except OSError as error:
        raise StoreError(
            f"{folder}: cannot be made ({error.strerror}); set XDG_CACHE_HOME to a folder that can"
        ) from error
    return Store(folder, Mirror(folder, files), writable)
