"""Defines versioned files below a root, an interface shared by local folders and buckets."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

from tasks.store.atomic import StoreError, write_bytes_atomically


class AlreadyThereError(StoreError):
    """Another process has created or changed the file."""


@dataclass(frozen=True)
class Entry:
    """One file of a listing. `version` identifies the content under this name; `crc32c` is None if unknown."""

    name: str
    size: int
    version: str
    crc32c: str | None = None  # 8 hex digits


class Files(Protocol):
    """Files below a root, by `/`-separated names. Writes are atomic; every method may raise StoreError."""

    @property
    def root(self) -> str:
        """The root for messages: a folder's path or gs://bucket/prefix."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content. Raises FileNotFoundError."""
        ...

    def read_many(self, names: list[str]) -> dict[str, bytes]:
        """Return the contents of the existing files, read concurrently from a bucket."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Return a stream of the content. Raises FileNotFoundError."""
        ...

    def write(self, name: str, data: bytes, *, create: bool = False, version: str | None = None) -> str:
        """Write a file and return its version. `create`: only if it is missing; `version`: only over that version.

        Raises AlreadyThereError if that condition fails.
        """
        ...

    def upload(self, name: str, path: Path) -> str:
        """Write a local file of any size under a name and return its version."""
        ...

    def stat(self, name: str) -> Entry | None:
        """Return the listing entry of one file; None without it."""
        ...

    def entries(self, prefix: str = "", pattern: str | None = None) -> Iterator[Entry]:
        """Yield every file below the folder `prefix`, by name, from one listing.

        `pattern`: a glob over full names (`runs/*/record.json`; `*` stays within a folder, `**` does not), applied by
        the store, so that other files are not transferred.
        """
        ...

    def delete(self, name: str, *, version: str | None = None) -> bool:
        """Remove a file (only that `version`, if given); returns whether it was removed."""
        ...

    def url(self, name: str) -> str:
        """Return the file's name for messages."""
        ...


class LocalFiles:
    """The files below a local folder, which may be missing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def root(self) -> str:
        return str(self._folder)

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read()

    def read_many(self, names: list[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found[name] = self.read(name)
        return found

    def open(self, name: str) -> BinaryIO:
        path = self._path(name)
        try:
            return path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(str(path)) from None
        except OSError as error:
            raise StoreError(f"{path}: cannot be read ({error.strerror}); check the folder's rights") from error

    def write(self, name: str, data: bytes, *, create: bool = False, version: str | None = None) -> str:
        path = self._path(name)
        if version is not None and self._version(path) != version:
            raise AlreadyThereError(f"{path}: was changed by another process")
        try:
            write_bytes_atomically(path, data, create=create)
        except FileExistsError:
            raise AlreadyThereError(f"{path}: was written by another process") from None
        written = self._version(path)
        return written or ""  # removed meanwhile

    def upload(self, name: str, path: Path) -> str:
        return self.write(name, path.read_bytes())

    def stat(self, name: str) -> Entry | None:
        path = self._path(name)
        version = self._version(path)
        return None if version is None else Entry(name=name, size=int(version.split("-")[-1]), version=version)

    def entries(self, prefix: str = "", pattern: str | None = None) -> Iterator[Entry]:
        names = self._glob(pattern) if pattern is not None else self._walk(self._path(prefix) if prefix else None)
        for name in names:
            entry = self.stat(name)
            if entry is not None and name.startswith(f"{prefix}/" if prefix else ""):
                yield entry

    def delete(self, name: str, *, version: str | None = None) -> bool:
        path = self._path(name)
        if version is None:
            path.unlink(missing_ok=True)
            return True
        if self._version(path) != version:
            return False
        # renamed first: between a check and an unlink another writer could replace the file
        taken = path.with_name(f".deleted-{uuid4().hex}")
        try:
            os.rename(path, taken)
        except FileNotFoundError:
            return False
        removed = self._version(taken) == version
        if not removed:
            with contextlib.suppress(FileExistsError):  # keeps an even newer file
                os.link(taken, path)
        taken.unlink()
        return removed

    def url(self, name: str) -> str:
        return str(self._path(name))

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if not all(parts) or any(part in (".", "..") for part in parts):
            raise StoreError(f"{name!r} is not the name of a file below {self._folder}")
        return self._folder.joinpath(*parts)

    def _version(self, path: Path) -> str | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def _walk(self, top: Path | None) -> list[str]:
        names = []
        for folder, folders, files in os.walk(top or self._folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            place = Path(folder).relative_to(self._folder)
            names += [(place / name).as_posix() for name in files if not name.startswith(".")]
        return sorted(names)

    def _glob(self, pattern: str) -> list[str]:
        # strings, because creating thousands of Path objects would dominate the time
        return sorted(glob(pattern, root_dir=self._folder, recursive=True, include_hidden=True))
