"""Turns the log of a running job, piece by piece, into its lines and events, until the job has ended."""

from collections.abc import Iterable, Iterator

from configs.schema import Frozen
from tasks.launch.backend import Restarted
from tasks.records import LogEvent
from tasks.records.text import visible
from tasks.scrape import LogFollower

LONGEST_LINE = 2_000  # characters of a line that are streamed on; the log keeps all of it


class LogLine(Frozen):
    """A complete line of the log, for people who read along; control characters are made visible."""

    text: str


class ProcessGone(Frozen):
    """The job is gone and its log was never closed: killed together with its supervisor, or the machine went."""

    job_name: str


type JobEvent = LogEvent | LogLine | ProcessGone | Restarted


def watch(pieces: Iterable[bytes | Restarted], job_name: str) -> Iterator[JobEvent]:
    """Yield the lines and events of a run as its log comes in, from its start to its end."""
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
