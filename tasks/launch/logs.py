"""Opens a run's log for one writer, reads its exit code, and renames and lists the logs of earlier attempts."""

import fcntl
import os
import re
from pathlib import Path

from tasks.launch.errors import LaunchError

_CLOSED = re.compile(rb"(?:^|\n)EXIT_CODE=(\d+)\n\Z")
_NUMBER = re.compile(r"\.(\d{1,9})\Z")
_TAIL = 32  # bytes at the end of a log, enough for the line with the exit code


def open_locked(log: Path) -> int:
    """Return a descriptor that appends to the log and locks it. Child processes share the lock. Raises LaunchError."""
    try:
        descriptor = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise LaunchError(f"{log}: cannot be written: {error.strerror}; choose another --out") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise LaunchError(f"{log}: cannot be locked: {error.strerror}; choose a local disk as --out") from error
        raise LaunchError(
            f"{log}: another process is still writing it (`fuser {log}` shows which): "
            "wait for it, end it, or choose another --out"
        ) from error
    return descriptor


def read_exit_code(log: Path) -> int | None:
    """Return the exit code in the log's last line (`EXIT_CODE=n`); None if the log has no such line."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            closed = _CLOSED.search(file.read())
    except FileNotFoundError:
        return None
    return int(closed[1]) if closed else None


def rename_earlier_log(log: Path) -> None:
    """Rename the log, if it exists, to the next free name: log.1.txt, log.2.txt, …; delete it if it is empty."""
    if not log.exists():
        return
    if not log.stat().st_size:  # its command was never started
        log.unlink()
        return
    number = 1
    while (new := log.with_name(f"{log.stem}.{number}{log.suffix}")).exists():
        number += 1
    os.replace(log, new)


def list_earlier_logs(log: Path) -> list[Path]:
    """Return the logs of earlier attempts, oldest first."""
    numbered = [(_NUMBER.search(path.stem), path) for path in log.parent.glob(f"{log.stem}.*{log.suffix}")]
    return [path for _, path in sorted((int(number[1]), path) for number, path in numbered if number)]
