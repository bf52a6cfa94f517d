"""Turns names below a root into files with versions: one small interface that a local folder and a bucket both keep."""

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
    """A file that should be new, or unchanged since it was read, is not: somebody else wrote it."""


@dataclass(frozen=True)
class Entry:
    """One file of a listing. `version` names exactly this content under this name; `crc32c` if the store knows it."""

    name: str
    size: int
    version: str
    crc32c: str | None = None  # 8 hex digits


class Files(Protocol):
    """Whole files below one root, by `/`-separated names. Writes are atomic; every method may raise StoreError."""

    @property
    def root(self) -> str:
        """What people call the root: a folder's path or gs://bucket/prefix."""
        ...

    def read(self, name: str) -> bytes:
        """The content; FileNotFoundError if there is none."""
        ...

    def read_many(self, names: list[str]) -> dict[str, bytes]:
        """The contents of those that are there, read side by side where that helps."""
        ...

    def open(self, name: str) -> BinaryIO:
        """A stream of the content, never held whole; FileNotFoundError if there is none."""
        ...

    def write(self, name: str, data: bytes, *, create: bool = False, version: str | None = None) -> str:
        """Write a whole file and return its version. `create`: only if there is none; `version`: only over that one.

        Raises AlreadyThereError where that does not hold.
        """
        ...

    def upload(self, name: str, path: Path) -> str:
        """Write a local file under a name, however large, and return its version."""
        ...

    def stat(self, name: str) -> Entry | None:
        """What a listing would say of one file; None if there is none."""
        ...

    def entries(self, prefix: str = "", pattern: str | None = None) -> Iterator[Entry]:
        """Every file whose name begins with the folder `prefix`, in one listing, by name.

        `pattern` is a glob over whole names (`runs/*/record.json`; `*` stays within a folder, `**` does not) that the
        store itself applies, so that other files cost nothing on the way.
        """
        ...

    def delete(self, name: str, *, version: str | None = None) -> bool:
        """Remove a file, if `version` is given only that version of it; whether it was removed."""
        ...

    def url(self, name: str) -> str:
        """What people call the file."""
        ...


class LocalFiles:
    """The files below a local folder, which need not exist yet."""

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
            raise AlreadyThereError(f"{path}: somebody else has changed it")
        try:
            write_bytes_atomically(path, data, create=create)
        except FileExistsError:
            raise AlreadyThereError(f"{path}: somebody else has written it") from None
        written = self._version(path)
        return written or ""  # removed by somebody else at once

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
        # taken aside first: between a look and an unlink another writer could put a newer file under the name
        taken = path.with_name(f".deleted-{uuid4().hex}")
        try:
            os.rename(path, taken)
        except FileNotFoundError:
            return False
        removed = self._version(taken) == version
        if not removed:
            with contextlib.suppress(FileExistsError):  # an even newer one is there: that one stands
                os.link(taken, path)
        taken.unlink()
        return removed

    def url(self, name: str) -> str:
        return str(self._path(name))

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if not all(parts) or any(part in (".", "..") for part in parts):
            raise StoreError(f"{name!r} is no name of a file below {self._folder}")
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
        # strings all the way: thousands of Path objects would be most of what a listing costs
        return sorted(glob(pattern, root_dir=self._folder, recursive=True, include_hidden=True))
