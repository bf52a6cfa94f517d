"""Defines `Files`, the interface to a store's files in a local folder or a bucket, and implements it for folders."""

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
    """A conditional write failed, because another process has created, changed or deleted the file."""


@dataclass(frozen=True)
class Entry:
    """A file's name, size and version. `version` changes whenever the file is rewritten. `crc32c`: None if unknown."""

    name: str
    size: int  # bytes
    version: str
    crc32c: str | None = None  # 8 hex digits


class Files(Protocol):
    """Files below a root, by `/`-separated names. Writes are atomic; every method may raise StoreError."""

    @property
    def root(self) -> str:
        """The address of the root: a folder's path or gs://bucket/prefix."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""
        ...

    def read_version(self, name: str) -> tuple[bytes, str] | None:
        """Return the content and the version of a file, in one request to a bucket; None if the file is missing."""
        ...

    def read_many(self, names: list[str]) -> dict[str, bytes]:
        """Return name → content, without missing files; a bucket is read concurrently."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Return a binary stream of a file. Raises FileNotFoundError."""
        ...

    def write(self, name: str, data: bytes, *, create: bool = False, version: str | None = None) -> None:
        """Write a file. create: only if it is missing. version: only if it has that version.

        Raises AlreadyThereError if the condition does not hold.
        """
        ...

    def upload(self, name: str, path: Path) -> None:
        """Copy the local file `path` to `name`."""
        ...

    def stat(self, name: str) -> Entry | None:
        """Return the entry of one file; None if it is missing."""
        ...

    def entries(self, prefix: str = "", pattern: str | None = None) -> Iterator[Entry]:
        """Yield every file below the folder `prefix`, sorted by name.

        pattern: a glob that the full name must match, e.g. `runs/*/record.json`; `*` matches within one folder, `**`
        across folders. A bucket applies it on the server, so other entries are not transferred. Without a pattern, a
        local folder's hidden files are left out.
        """
        ...

    def delete(self, name: str, *, version: str | None = None) -> bool:
        """Delete a file if it exists; return True.

        With `version`: delete only this version; return False if the file has another one or is missing.
        """
        ...

    def url(self, name: str) -> str:
        """Return the full path or gs:// address of a file, for messages."""
        ...


class LocalFiles:
    """Implements `Files` for a local folder, which may be missing. A version is inode, mtime and size."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def root(self) -> str:
        return str(self._folder)

    def read(self, name: str) -> bytes:
        with self.open(name) as file:
            return file.read()

    def read_version(self, name: str) -> tuple[bytes, str] | None:
        try:
            with self.open(name) as file:
                return file.read(), _version_of(os.fstat(file.fileno()))
        except FileNotFoundError:
            return None

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

    def write(self, name: str, data: bytes, *, create: bool = False, version: str | None = None) -> None:
        path = self._path(name)
        if version is not None and self._version(path) != version:
            raise AlreadyThereError(f"{path}: was changed by another process")
        try:
            write_bytes_atomically(path, data, create=create)
        except FileExistsError:
            raise AlreadyThereError(f"{path}: was written by another process") from None

    def upload(self, name: str, path: Path) -> None:
        self.write(name, path.read_bytes())

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
        # Renamed before the second check: otherwise another writer could replace the file between check and deletion.
        taken = path.with_name(f".deleted-{uuid4().hex}")
        try:
            os.rename(path, taken)
        except FileNotFoundError:
            return False
        removed = self._version(taken) == version
        if not removed:
            with contextlib.suppress(FileExistsError):  # another writer has created a newer file: keep the newer file
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
        return _version_of(found)

    def _walk(self, top: Path | None) -> list[str]:
        names = []
        for folder, folders, files in os.walk(top or self._folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            place = Path(folder).relative_to(self._folder)
            names += [(place / name).as_posix() for name in files if not name.startswith(".")]
        return sorted(names)

    def _glob(self, pattern: str) -> list[str]:
        # glob returns strings; creating thousands of Path objects would take most of the time
        return sorted(glob(pattern, root_dir=self._folder, recursive=True, include_hidden=True))


def _version_of(found: os.stat_result) -> str:
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
