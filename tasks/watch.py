"""Follows the log of a running job and turns what it gains into events, until the job has ended."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from configs.schema import Frozen
from tasks.records import RunHandle
from tasks.scrape import LogEvent, LogFollower

POLL_S = 0.2
READ_BYTES = 1 << 20
LONGEST_LINE = 2_000  # characters of a line that are streamed on; the log keeps all of it


class LogLine(Frozen):
    """A complete line of the log, for people who read along."""

    text: str


class ProcessGone(Frozen):
    """The job is gone and its log was never closed: killed together with its supervisor, or the machine went."""

    job_name: str


def follow(
    handle: RunHandle, is_alive: Callable[[RunHandle], bool], *, poll_s: float = POLL_S
) -> Iterator[LogEvent | LogLine | ProcessGone]:
    """Yield the lines and events of a run from the start of its log to its end, as they are written."""
    follower = LogFollower()
    rest = b""
    tail = b""
    for chunk in read_growing(Path(handle.log), lambda: is_alive(handle), poll_s=poll_s):
        *lines, rest = (rest + chunk).split(b"\n")
        tail = (tail + chunk)[-64:]
        for line in lines:
            yield LogLine(text=line[:LONGEST_LINE].decode("utf-8", "replace"))
        yield from follower.feed(chunk)
    if b"EXIT_CODE=" not in tail:
        yield ProcessGone(job_name=handle.job_name)


def read_growing(path: Path, is_alive: Callable[[], bool], *, poll_s: float) -> Iterator[bytes]:
    """Yield a file's bytes from its start, waiting for more while its writer lives."""
    while not path.exists() and is_alive():
        time.sleep(poll_s)
    if not path.exists():
        return
    with path.open("rb") as file:
        while True:
            alive = is_alive()  # before the read: what a dying writer wrote last is then read after it
            while chunk := file.read(READ_BYTES):
                yield chunk
            if not alive:
                return
            time.sleep(poll_s)
