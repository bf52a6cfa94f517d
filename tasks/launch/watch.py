"""Turns a running job's log, piece by piece, into lines and events until the job has ended."""

from collections.abc import Iterable, Iterator

from configs.schema import Frozen
from tasks.launch.backend import Restarted
from tasks.records import LogEvent
from tasks.records.text import visible
from tasks.scrape import LogFollower

LONGEST_LINE = 2_000  # characters of a streamed line; the log keeps all of it


class LogLine(Frozen):
    """A complete line of the log for display; control characters are made visible."""

    text: str


class ProcessGone(Frozen):
    """The job is gone and its log was never closed: it was killed with its supervisor, or the machine was lost."""

    job_name: str


type JobEvent = LogEvent | LogLine | ProcessGone | Restarted


def watch(pieces: Iterable[bytes | Restarted], job_name: str) -> Iterator[JobEvent]:
    """Yield a run's lines and events as its log grows, from start to end."""
    follower = LogFollower()
    rest = b""
    tail = b""
    for piece in pieces:
        if isinstance(piece, Restarted):
            follower, rest, tail, job_name = LogFollower(), b"", b"", piece.job_name
            yield piece
            continue
        *lines, rest = (rest + piece).split(b"\n")
        rest = rest[:LONGEST_LINE]
        tail = (tail + piece)[-64:]
        for line in lines:
            yield LogLine(text=visible(line[:LONGEST_LINE].decode("utf-8", "replace")))
        yield from follower.feed(piece)
    if b"EXIT_CODE=" not in tail:
        yield ProcessGone(job_name=job_name)
