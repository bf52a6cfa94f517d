"""Finds the cause of a run's end in the last lines of its log, if there is no exception; needs constant memory."""

import mmap
import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configs.launch import BACKENDS
from tasks.launch.backend import CAUSE_PATTERN, LOST_PATTERN, PLACE_PATTERN
from tasks.launch.job import launcher_of
from tasks.records import LogError, Source
from tasks.scrape.death.causes import classify
from tasks.scrape.prefixes import ABSL

CHUNK = 1 << 22
MOST_LINES = 20
# lines that are not part of a refusal: loggers, the frame, source locations of C++ libraries
_OTHERS = re.compile(
    rb"\s*\Z|" + ABSL + rb"|XPK (?:Start|End): |[^\n]{0,40}\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d|maxview: |\S+\.cc:\d+\s*\Z"
)

type Text = mmap.mmap | bytes


@contextmanager
def mapped(log: Path) -> Iterator[Text]:
    """Map a file into memory, so that only the parts in use are read."""
    with log.open("rb") as file:
        try:
            data: Text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            data = b""
        try:
            yield data
        finally:
            if isinstance(data, mmap.mmap):
                data.close()


def source_at(data: Text, offset: int) -> Source:
    """Return an offset in a log with its line number."""
    breaks = sum(data[begin : min(begin + CHUNK, offset)].count(b"\n") for begin in range(0, offset, CHUNK))
    return Source(line=breaks + 1, offset=offset)


def find_platform_cause(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return the cluster's reason for ending a job, as the launcher noted it at the log's end; None without one."""
    with mapped(log) as data:
        begin, end = span if span[1] else (0, len(data))
        found = deque(CAUSE_PATTERN.finditer(data, begin, end), maxlen=1)
        if not found:
            return None
        last = found.pop()
        kind, message = (text.decode("utf-8", "replace") for text in last.groups())
        place = source_at(data, last.start())
        del last  # it keeps the file open
    known = (launcher_of(name).death_kinds.get(kind) for name in BACKENDS)
    death = next(filter(None, known), None) or classify(f"{kind}: {message}")
    return LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)


def find_lost_lines(log: Path, span: tuple[int, int]) -> tuple[str, ...]:
    """Return the launcher's notes about lines that it could not read: from when to when, and why."""
    with mapped(log) as data:
        begin, end = span if span[1] else (0, len(data))
        notes = [found.group().decode("utf-8", "replace") for found in LOST_PATTERN.finditer(data, begin, end)]
    return tuple(note.removeprefix("maxview: ") for note in notes)


def find_place(log: Path, span: tuple[int, int]) -> str | None:
    """Return the cluster and nodes of a run, as the launcher noted them; several if the run was restarted elsewhere."""
    with mapped(log) as data:
        begin, end = span if span[1] else (0, len(data))
        places = [found[1].decode("utf-8", "replace") for found in PLACE_PATTERN.finditer(data, begin, end)]
    return "; then ".join(dict.fromkeys(places)) or None


def find_end(log: Path, span: tuple[int, int]) -> Source:
    """Return the end of a run in its log: its `EXIT_CODE=`, else its last non-empty line."""
    with mapped(log) as data:
        begin, end = span if span[1] else (0, len(data))
        offset = data.rfind(b"EXIT_CODE=", begin, end)
        if offset < 0:
            offset = next((start for start, line in lines_back(data, begin, end) if line.strip()), begin)
        return source_at(data, offset)


def find_refusal(log: Path, span: tuple[int, int]) -> LogError | None:
    """Return the last message of a program that refused its input: the text after its log, before the frame's end."""
    with mapped(log) as data:
        begin, end = span if span[1] else (0, len(data))
        end = max(data.rfind(b"XPK End: ", begin, end), begin) or end
        said: list[tuple[int, str]] = []
        for start, line in lines_back(data, begin, end):
            if _OTHERS.match(line) or len(said) == MOST_LINES:
                if said or line.strip():
                    break
                continue
            said.append((start, line.decode("utf-8", "replace").strip()))
        if not said:
            return None
        place = source_at(data, said[-1][0])
    message = "; ".join(text for _, text in reversed(said))
    return LogError(type="ConfigError", message=message, line=place.line, offset=place.offset, kind="configuration")


def lines_back(data: Text, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line) from the last line to the first."""
    while end > begin:
        last = end - 1 if data[end - 1 : end] == b"\n" else end
        start = max(data.rfind(b"\n", begin, last) + 1, begin)
        yield start, data[start:last]
        end = start
