"""Finds the launcher's notes and a refusal of the input in a run's log, in constant memory, if it has no exception."""

import mmap
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from configs.launch import BACKENDS
from tasks.launch.backend import CAUSE_PATTERN, LOST_PATTERN, PLACE_PATTERN
from tasks.launch.job import launcher_of
from tasks.records import LogError, Source
from tasks.scrape.death.causes import classify
from tasks.scrape.prefixes import ABSL
from tasks.scrape.window import text_of

CHUNK = 1 << 22
MOST_LINES = 20
# lines that end a refusal: empty ones, those of loggers, of the frame, and source locations of C++ libraries
_OTHERS = re.compile(
    rb"\s*\Z|" + ABSL + rb"|XPK (?:Start|End): |[^\n]{0,40}\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d|maxview: |\S+\.cc:\d+\s*\Z"
)

type Text = mmap.mmap | bytes


@contextmanager
def mapped(log: Path, span: tuple[int, int]) -> Iterator[tuple[Text, int, int]]:
    """Yield (bytes, begin, end): the file mapped into memory, so that only used parts are read, and the run's range."""
    with log.open("rb") as file, ExitStack() as stack:
        data: Text = b""
        with suppress(ValueError):  # an empty file cannot be mapped
            data = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        yield data, *(span if span[1] else (0, len(data)))


def source_at(data: Text, offset: int) -> Source:
    """Return an offset in a log with its line number."""
    breaks = sum(data[begin : min(begin + CHUNK, offset)].count(b"\n") for begin in range(0, offset, CHUNK))
    return Source(line=breaks + 1, offset=offset)


def find_platform_cause(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return the cluster's reason for ending a job, which the launcher writes at the log's end; None without one."""
    with mapped(log, span) as (data, begin, end):
        found = [(one.start(), text_of(one[1]), text_of(one[2])) for one in CAUSE_PATTERN.finditer(data, begin, end)]
        if not found:
            return None
        offset, kind, message = found[-1]
        place = source_at(data, offset)
    known = (launcher_of(name).death_kinds.get(kind) for name in BACKENDS)
    death = next(filter(None, known), None) or classify(f"{kind}: {message}")
    return LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)


def find_lost_lines(log: Path, span: tuple[int, int]) -> tuple[str, ...]:
    """Return the launcher's notes about lines that it could not read from the cluster: which period, and why."""
    with mapped(log, span) as (data, begin, end):
        notes = [text_of(found[0]).removeprefix("maxview: ") for found in LOST_PATTERN.finditer(data, begin, end)]
    return tuple(notes)


def find_place(log: Path, span: tuple[int, int]) -> str | None:
    """Return the cluster and nodes of a run by the launcher's notes, joined if it was restarted elsewhere; or None."""
    with mapped(log, span) as (data, begin, end):
        places = [text_of(found[1]) for found in PLACE_PATTERN.finditer(data, begin, end)]
    return "; then ".join(dict.fromkeys(places)) or None


def find_end(log: Path, span: tuple[int, int]) -> Source:
    """Return the end of a run in its log: its `EXIT_CODE=`, else its last non-empty line."""
    with mapped(log, span) as (data, begin, end):
        offset = data.rfind(b"EXIT_CODE=", begin, end)
        if offset < 0:
            offset = next((start for start, line in lines_back(data, begin, end) if line.strip()), begin)
        return source_at(data, offset)


def find_refusal(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return a program's refusal of its input: the last lines before the frame's end, if no logger printed them."""
    with mapped(log, span) as (data, begin, end):
        end = max(data.rfind(b"XPK End: ", begin, end), begin) or end
        filled = dropwhile(lambda item: not item[1].strip(), lines_back(data, begin, end))
        said = list(islice(takewhile(lambda item: not _OTHERS.match(item[1]), filled), MOST_LINES))
        if not said:
            return None
        place = source_at(data, said[-1][0])
    message = "; ".join(text_of(line).strip() for _, line in reversed(said))
    return LogError(type="ConfigError", message=message, line=place.line, offset=place.offset, kind="configuration")


def lines_back(data: Text, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from the last line to the first."""
    while end > begin:
        last = end - 1 if data[end - 1 : end] == b"\n" else end
        start = max(data.rfind(b"\n", begin, last) + 1, begin)
        yield start, data[start:last]
        end = start
