"""Writes files atomically: after a failure a file has its old or its complete new content. Explains full disks."""

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4


class StoreError(ValueError):
    """An operation on the store failed; the message names the file, folder, disk or value, and usually a remedy."""


def write_atomically(path: str | Path, text: str) -> Path:
    """Write `text` in UTF-8 to `path` atomically, creating missing folders; returns the path.

    The text is written to a hidden temporary file in the same folder, synced, and renamed. Raises StoreError naming
    the path or the full disk, and then leaves no temporary file.
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

    create: never replace an existing file, so at most one of several writers succeeds. sync: if False, a power failure
    can damage the file. hint: text at the end of an error message.
    Raises StoreError naming the path or the full disk, also if `path` is a folder, pipe or device; and FileExistsError
    if `create` is set and the file exists.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise StoreError(f"{path}: is {kind}, not a file; name a file")
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # not a tempfile, whose mode 0600 would keep other users from reading it
        with (path.parent / f".{path.name[:100]}.{uuid4().hex}.tmp").open("xb") as file:
            temporary = Path(file.name)
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
        # `os.link` raised it. If `temporary` is not set yet, mkdir raised it, because a parent is a file.
        if create and temporary is not None:
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
            temporary.unlink(missing_ok=True)
    return path


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a new file name survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def explain_little(path: Path, least: int) -> str | None:
    """Return a message if the disk of `path` has less than `least` bytes free; else None."""
    near = next(folder for folder in (path, *path.parents) if folder.is_dir())
    if shutil.disk_usage(near).free >= least:
        return None
    return explain_full(near, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def explain_full(path: str | Path, error: OSError) -> str | None:
    """Return a message about the full disk (or quota) that contains `path`; None if `error` has another reason."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    near = Path(path).absolute()
    near = next(folder for folder in (near, *near.parents) if os.path.isdir(folder))
    mount = next(folder for folder in (near, *near.parents) if os.path.ismount(folder))
    usage, said = shutil.disk_usage(near), error.strerror or "No space left"
    return (
        f"{said}: the disk at {mount} has {usage.free / 1e9:.2f} of {usage.total / 1e9:.2f} GB free; make "
        "room there and repeat the command, which continues from here, or choose another folder"
    )
