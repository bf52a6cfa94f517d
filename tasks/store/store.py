"""Opens a store in an output folder or bucket, checks access, and lists its run and comparison folders."""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from tasks.store.atomic import StoreError, explain_full, write_atomically
from tasks.store.directories import LOCAL, ComparisonDirectory, RunDirectory
from tasks.store.files import Files
from tasks.store.mirror import ORIGIN, Mirror, working_copy
from tasks.store.names import check_name
from tasks.store.place import Folder


@dataclass(frozen=True)
class Store:
    """An output folder or bucket. Names of runs and comparisons are checked, so no path leaves the store."""

    path: Path  # the folder, or this machine's working copy of the bucket
    place: Folder = LOCAL
    writable: bool = True  # can be False only if opened with `reading`

    def run(self, run_name: str) -> RunDirectory:
        """Return the folder of a run, which may be missing. Raises StoreError for an invalid name."""
        return RunDirectory(self.path / "runs" / check_name(run_name, "run name"), self.place)

    def run_of_log(self, log: str) -> RunDirectory:
        """Return the folder of the run whose record has this log path, even if the store has moved since."""
        return self.run(PurePath(log).parent.name)

    @property
    def files(self) -> Files:
        """The store's files; names are paths below the store."""
        return self.place.files_below(self.path)

    @property
    def address(self) -> str:
        """The store's address for messages and `open_store`: an absolute path, or gs://bucket/prefix."""
        return self.files.root

    def address_of(self, path: Path) -> str:
        """Return the path, or in a bucket the gs:// address, of the file `path` of this store, for messages."""
        return self.place.address_of(path)

    def link_to(self, path: Path) -> str:
        """Return a URL that opens a file in a browser; for a bucket, this requires a login with read access."""
        return self.place.link_to(path)

    def link_for_others(self, path: Path) -> str | None:
        """Return a URL that opens a file on other machines; None in a local folder and in a read-only bucket."""
        return self.place.link_for_others(path) if self.writable else None

    def link_from_page(self, name: str, depth: int = 0) -> str:
        """Return the link to a file of this store on a page that is `depth` folders below the store."""
        return self.place.link_from_page(self.path / name, name, depth)

    @property
    def keeps_pages(self) -> bool:
        """Whether this machine can write pages: into the store, or only into its working copy."""
        return self.writable or self.place.has_copy

    def lock(self, name: str, wait: Callable[[str], Any]) -> AbstractContextManager[None]:
        """Lock a file of a folder against other writers (see `hold`). A bucket has no locks: it checks versions."""
        return self.place.lock(self.path / name, wait)

    def refresh(self, kind: Literal["runs", "comparisons"]) -> None:
        """Download the changed records of all runs or comparisons from the bucket; does nothing for a local store."""
        patterns = {"runs": "runs/*/record.json", "comparisons": "comparisons/*/*/*/comparison.json"}
        self.place.refresh_matching(kind, patterns[kind])

    def push(self, folder: Path) -> None:
        """Upload a folder or a file to the bucket; does nothing for a local store."""
        self.place.push(folder)

    def comparison(self, comparison: str, case: str, id: str) -> ComparisonDirectory:
        """Return the folder of a comparison, which may be missing. Raises StoreError for invalid names."""
        parts = check_name(comparison, "comparison"), check_name(case, "case"), check_name(id, "comparison id")
        return ComparisonDirectory(self.path.joinpath("comparisons", *parts), self.place)

    def runs(self) -> Iterator[RunDirectory]:
        """Yield every run folder with a plan or record, sorted by name."""
        kinds = ("runs/*/plan.json", "runs/*/record.json")
        found = {entry.name.split("/")[1] for kind in kinds for entry in self.files.entries("runs", kind)}
        for name in sorted(found):
            yield RunDirectory(self.path / "runs" / name, self.place)

    def comparisons(self) -> Iterator[ComparisonDirectory]:
        """Yield every folder of a finished comparison, sorted by path."""
        for entry in self.files.entries("comparisons", "comparisons/*/*/*/comparison.json"):
            yield ComparisonDirectory((self.path / entry.name).parent, self.place)


def open_store(out: str | Path, *, reading: bool = False) -> Store:
    """Return the store in the folder `out`, created if missing, or in the bucket gs://…/….

    Raises StoreError if the store is not writable, and then leaves no new folders. reading: require only read access
    to an existing store, create nothing but a bucket's working copy; `Store.writable` may then be False.
    """
    if str(out).startswith("gs://"):
        return _open_bucket(str(out), reading=reading)
    path = _local(out)
    if reading:
        return _open_to_read(path)
    # unlike Path.exists, os.path.exists does not raise for a name that is too long
    made = [p for p in (path, *path.parents) if not os.path.exists(p)]
    try:
        path.mkdir(parents=True, exist_ok=True)
        _try_to_write(path)
        if not os.listdir(
            path
        ):  # inside a clone, runs are no untracked files: they would belong to its working tree as a version
            (path / ".gitignore").write_text("*\n")
    except OSError as error:
        for folder in made:
            if os.path.isdir(folder):
                folder.rmdir()
        raise _not_writable(path, error) from error
    return Store(path)


def describe_store(out: str | Path) -> Store:
    """Return the store `out` without access to it, for plans that are only shown. Raises StoreError for no address."""
    if str(out).startswith("gs://"):
        from tasks.store.gcs import GcsFiles  # takes a second to import

        files = GcsFiles(str(out))
        folder = working_copy(files.root)
        return Store(folder, Mirror(folder, files))
    return Store(_local(out))


def check_writable(out: str | Path) -> tuple[str, Path]:
    """Return the address of the store `out`, and an existing local folder on the disk that the store's runs fill.

    Creates nothing: the folder is the store's (of a bucket, the working copy's) or its nearest existing parent. Raises
    StoreError if the store is not writable.
    """
    if str(out).startswith("gs://"):
        from tasks.store.gcs import GcsFiles  # takes a second to import

        files = GcsFiles(str(out))
        files.check_access(reading=False)
        return files.root, _nearest(working_copy(files.root))
    path = _local(out)
    near = _nearest(path)
    try:
        with suppress(FileNotFoundError):
            path.stat()  # raises OSError for an invalid name
        _try_to_write(near)
    except OSError as error:
        raise _not_writable(path, error) from error
    return str(path), near


def _local(out: str | Path) -> Path:
    if not str(out).strip():
        raise StoreError("--out is empty: name a folder for runs, records and pages")
    if "://" in str(out) or str(out).startswith("gs:"):
        raise StoreError(f"{out}: not a local folder or a gs:// address; choose one with --out")
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


def _open_to_read(path: Path) -> Store:
    if not os.path.isdir(path):  # unlike Path.is_dir, never raises for a long name
        raise StoreError(f"output folder {path}: does not exist; name a folder written by maxview with --out")
    if not os.access(path, os.R_OK | os.X_OK):
        raise StoreError(
            f"output folder {path}: you have no read access; ask its owner to run: chmod a+rX {shlex.quote(str(path))}"
        )
    return Store(path, writable=os.access(path, os.W_OK))


def _open_bucket(url: str, *, reading: bool) -> Store:
    from tasks.store.gcs import GcsFiles  # takes a second to import; local stores do not need it

    files = GcsFiles(url)
    writable = files.check_access(reading=reading)
    folder = working_copy(files.root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / ORIGIN, files.root)
    except OSError as error:
        raise StoreError(
            f"{folder}: the working copy cannot be created ({error.strerror}); set XDG_CACHE_HOME to a writable folder"
        ) from error
    return Store(folder, Mirror(folder, files), writable)
