"""Writes files atomically: after any failure a file has its old or its complete new content."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tasks.store.disk import explain_full


class StoreError(ValueError):
    """An operation on the store failed; the message names the file or folder and the remedy."""


def write_atomically(path: str | Path, text: str) -> Path:
    """Write `text` in UTF-8 to `path` atomically, creating missing folders; returns the path.

    The text is written to a hidden temporary file in the same folder, synced, and renamed. After a failure the
    temporary file is removed and the old file stays. Raises StoreError naming the path.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise StoreError(f"{path}: cannot hold {text[error.start : error.end]!r}, invalid Unicode") from error
    return write_bytes_atomically(Path(path), data)


def write_bytes_atomically(
    path: Path, data: bytes | Iterable[bytes], *, create: bool = False, sync: bool = True, hint: str = ""
) -> Path:
    """Write bytes, or an iterable of them, as `write_atomically` does; returns the path.

    create: never replace an existing file, so exactly one of several writers succeeds. sync: if False, a power failure
    can damage the file. hint: text at the end of an error message.
    Raises StoreError naming the path, also if it is a folder, pipe or device; with `create`, FileExistsError.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise StoreError(f"{path}: is {kind}, not a file; name a file")
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_umask())  # with mkstemp's mode 0600 other users could not read it
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if create:
            os.link(temporary, path)  # unlike a rename, link fails if the name exists
        else:
            os.replace(temporary, path)
            temporary = None
        if sync:
            _sync_folder(path.parent)
    except FileExistsError:
        if create and temporary is not None:  # otherwise mkdir raised, because a parent is a file
            raise
        raise StoreError(f"{path}: a file stands where a folder is needed; choose another folder") from None
    except OSError as error:
        other = (
            f"{path}: cannot be written ({error.strerror or error}); free space or rights may be missing: "
            f"choose a folder that you can write to{hint}"
        )
        raise StoreError(explain_full(path.parent, error) or other) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    return path


def _umask() -> int:
    # os.umask can only be read by changing it, for all threads. Linux also shows it in /proc.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass  # not Linux: return the usual umask
    return 0o022


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a new file name survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
