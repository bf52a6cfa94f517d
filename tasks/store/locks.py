"""Locks between processes by means of a file; the kernel releases a lock when its process ends."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.store.atomic import StoreError


@contextmanager
def hold(path: Path, wait: Callable[[str], Any]) -> Iterator[None]:
    """Lock the file `path`, created if it is missing, while the block runs. Calls `wait` until the lock is free.

    wait: gets the file's text, "process <pid>" of the holder or of the previous holder, or "another process" if the
    file is still empty; should sleep; may raise. Raises StoreError if the file cannot be locked.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}); choose another --out") from error
    try:
        while not _take(descriptor, path):
            wait(os.pread(descriptor, 100, 0).decode("ascii", "replace").strip() or "another process")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(f"{path}: cannot be locked ({error.strerror}); choose a local disk as --out") from error
    return True
