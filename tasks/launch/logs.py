"""Opens a run's log for one writer, watches it while it grows, and joins it with the logs of earlier attempts."""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from configs.frozen import Frozen
from tasks.launch.backend import LaunchError, Restarted
from tasks.records.log_reading import LogEvent, RunEnded
from tasks.records.text import visible
from tasks.scrape.follow import LogFollower
from tasks.scrape.read_log import scrape_run
from tasks.scrape.window import LogFormatError
from tasks.store.atomic import write_bytes_atomically

_CLOSED = re.compile(rb"(?:^|\n)EXIT_CODE=(\d+)\n\Z")
_NUMBER = re.compile(r"\.(\d{1,9})\Z")
CHUNK = 1 << 20  # bytes per read
MAX_LINE_LENGTH = 2_000  # bytes; longer lines are truncated for display, but not in the log
_TAIL = 32  # bytes at the end of a log, enough for the line with the exit code


class LogLine(Frozen):
    """A line of the log for display, cut to MAX_LINE_LENGTH; control characters are made visible."""

    text: str


type JobEvent = LogEvent | LogLine | Restarted


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
    """Return the exit code in the log's last line (`EXIT_CODE=n`); None if there is no log or no such line."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            closed = _CLOSED.search(file.read())
    except FileNotFoundError:
        return None
    return int(closed[1]) if closed else None


def watch(pieces: Iterable[bytes | Restarted]) -> Iterator[JobEvent]:
    """Yield a job's complete lines, events and restarts; then RunEnded if its log does not end with an exit code."""
    follower = LogFollower()
    rest = b""
    tail = b""
    for piece in pieces:
        if isinstance(piece, Restarted):
            follower, rest, tail = LogFollower(), b"", b""
            yield piece
            continue
        *lines, rest = (rest + piece).split(b"\n")
        rest = rest[:MAX_LINE_LENGTH]
        tail = (tail + piece)[-64:]
        for line in lines:
            yield LogLine(text=visible(line[:MAX_LINE_LENGTH].decode("utf-8", "replace")))
        yield from follower.feed(piece)
    if b"EXIT_CODE=" not in tail:
        yield RunEnded()


def rename_earlier_log(log: Path) -> None:
    """Rename the log, if it exists, to the next free name: log.1.txt, log.2.txt, …; delete it if it is empty."""
    if not log.exists():
        return
    if not log.stat().st_size:  # the log's command was never started
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


def rejoin_attempts(log: Path) -> None:
    """Prepend the logs of earlier attempts to a successful run's log, if the run resumed from their checkpoints.

    The joined log may contain a step twice; readers then use its last row. Omits attempts whose checkpoints were
    not used. Does nothing if the run died, because the cause of death is read from the last log alone. Idempotent,
    so that a later flow can repeat it after a killed flow.
    """
    attempts = list_earlier_logs(log)
    if not attempts or read_exit_code(log) != 0:
        return
    parts, begin = [log], find_first_step(log)
    for attempt in reversed(attempts):
        first = find_first_step(attempt)
        if first is not None and (begin is None or first < begin):
            parts.insert(0, attempt)
            begin = first
    if len(parts) > 1:
        write_bytes_atomically(log, read_all(parts))


def find_first_step(log: Path) -> int | None:
    """Return the number of the first training step in a log; None if the log has no steps or is no readable log."""
    try:
        steps = scrape_run(log).steps
    except LogFormatError:  # killed before it printed anything
        return None
    return None if steps.is_empty() else int(steps["step"][0])


def read_all(parts: list[Path]) -> Iterator[bytes]:
    """Yield the bytes of all files. Adds a missing line break at the end of each file except the last."""
    for part in parts:
        end = b"\n"
        with part.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
                end = chunk[-1:]
        if part is not parts[-1] and end != b"\n":
            yield b"\n"
