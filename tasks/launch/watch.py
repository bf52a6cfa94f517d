"""Parses a running job's log into lines and events while it grows."""

from collections.abc import Iterable, Iterator

from configs.schema import Frozen
from tasks.launch.backend import Restarted
from tasks.records import LogEvent, RunEnded
from tasks.records.text import visible
from tasks.scrape import LogFollower

LONGEST_LINE = 2_000  # bytes; longer lines are truncated for display, but not in the log


class LogLine(Frozen):
    """A complete line of the log for display; control characters are made visible."""

    text: str


type JobEvent = LogEvent | LogLine | Restarted


def watch(pieces: Iterable[bytes | Restarted]) -> Iterator[JobEvent]:
    """Yield a job's lines and events from the pieces of its log, then RunEnded if the log has no exit code."""
    follower = LogFollower()
    rest = b""
    tail = b""
    for piece in pieces:
        if isinstance(piece, Restarted):
            follower, rest, tail = LogFollower(), b"", b""
            yield piece
            continue
        *lines, rest = (rest + piece).split(b"\n")
        rest = rest[:LONGEST_LINE]
        tail = (tail + piece)[-64:]
        for line in lines:
            yield LogLine(text=visible(line[:LONGEST_LINE].decode("utf-8", "replace")))
        yield from follower.feed(piece)
    if b"EXIT_CODE=" not in tail:
        yield RunEnded()
