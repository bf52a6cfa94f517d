"""Turns a text or bytes into a file that is either the old one or the whole new one, whatever happens in between."""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tasks.store.disk import explain_full


class StoreError(ValueError):
    """The store cannot be used as asked: the message names the file or folder and what to do."""


def write_atomically(path: str | Path, text: str) -> Path:
    """Writes `text` in UTF-8 to `path` so that no reader ever sees half of it; missing folders are made.

    The text goes to a hidden temporary file in the same folder, to disk, and then takes the name in one step. When
    anything fails the temporary file is removed and the old file stands. Raises StoreError naming the path.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise StoreError(f"{path}: cannot hold {text[error.start : error.end]!r}, which is no Unicode text") from error
    return write_bytes_atomically(Path(path), data)


def write_bytes_atomically(path: Path, data: bytes | Iterable[bytes], *, create: bool = False) -> Path:
    """The same for bytes, or for pieces of them. With `create` an existing file is never replaced: of several writers
    one alone succeeds.

    Raises StoreError naming the path, also for a folder, a pipe or a device, which is never replaced; FileExistsError
    with `create`.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise StoreError(f"{path}: is {kind}, not a file; name a file")
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
        with open(descriptor, "wb") as file:
            os.fchmod(
                file.fileno(), 0o666 & ~_umask()
            )  # mkstemp's 0600 would hide records from the people they are for
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        if create:
            os.link(temporary, path)  # unlike a rename it refuses a name that is taken
        else:
            os.replace(temporary, path)
            temporary = None
        _sync_folder(path.parent)
    except FileExistsError:
        if create and temporary is not None:  # else it is a parent that is no folder
            raise
        raise StoreError(f"{path}: a file stands where a folder is needed; choose another folder") from None
    except OSError as error:
        other = (
            f"{path}: cannot be written ({error.strerror or error}); free space or rights may be missing: "
            "choose a folder that you can write to"
        )
        raise StoreError(explain_full(path.parent, error) or other) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
    return path


def _umask() -> int:
    # Linux tells the mask of a process without changing it; os.umask would change it for every thread for a moment.
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass  # not Linux: the common mask
    return 0o022


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
