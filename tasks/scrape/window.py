"""Reads a file in chunks of bytes, and cuts these into overlapping windows, so that a log of any size fits into memory.

A `Chunks` is a function: each call yields the chunks of a text from its start. The progress of long files is reported
to listeners, e.g. the command line's progress display.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]  # Python's own parser of patterns; there is no public one
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.records.log_reading import UnreadLine
from tasks.records.shared_fields import Source

CHUNK = 4 << 20  # bytes read at a time
FIRST = 1 << 20  # bytes of the first chunk: small, because it is enough to recognise a text
OVERLAP = 64 << 10  # bytes; longer than any match, so a match is complete in the window where it starts
CONTEXT = 4 << 10  # bytes kept before a window, for the prefix of a match
LONG = 16 << 20  # bytes; shorter files are read in a second, and their progress is not reported

type Chunks = Callable[[], Iterator[bytes]]
type OnRead = Callable[[str, int, int], None]  # arguments: file name, bytes read, bytes of the file

_listeners: list[OnRead] = []


class LogFormatError(ValueError):
    """The file is not a readable log. The message is `file: what is wrong; what to do`, or `file:line: …`."""


def text_of(data: bytes | None) -> str:
    """Return bytes of a log as text, "" for None; invalid UTF-8 becomes U+FFFD."""
    return (data or b"").decode("utf-8", "replace")


@dataclass(frozen=True)
class Window:
    """A part of a log. Matches that begin in data[start:limit] belong to it; the bytes around these are context."""

    data: bytes
    base: int  # offset of data[0] in the file
    line: int  # 1-based line number of data[0]
    start: int  # index in `data`, like `limit`
    limit: int
    last: bool  # the log ends at the end of `data`

    @cached_property
    def breaks(self) -> NDArray[np.int64]:
        """The positions of the line breaks in `data`."""
        return np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))

    def source(self, position: int) -> Source:
        """Return the line number and file offset of a position in `data`."""
        return Source(line=self.line + int(self.breaks.searchsorted(position)), offset=self.base + position)

    def place(self, position: int) -> dict[str, int]:
        """Return `source(position)` as {"line": …, "offset": …}, the fields of many records."""
        return self.source(position).model_dump()

    def unread(self, position: int) -> UnreadLine:
        """Return the rest of the line from a position in `data`, at most 200 bytes, as an unread line."""
        source, text = self.source(position), self.data[position : position + 200].split(b"\n")[0]
        return UnreadLine(line=source.line, offset=source.offset, text=text_of(text))


def find_all(
    patterns: Mapping[str, re.Pattern[bytes]], window: Window, spans: Sequence[tuple[int, int]]
) -> list[tuple[str, re.Match[bytes]]]:
    """Return (name, match) of all matches inside `spans` that start before the window's limit, ascending."""
    text = b"\n".join([window.data[begin:end] for begin, end in spans])
    hits = [
        (match.start(), name, match)
        for name, pattern in patterns.items()
        if may_match(pattern, text)
        for begin, end in spans
        for match in pattern.finditer(window.data, begin, end)
        if match.start() < window.limit
    ]
    hits.sort(key=lambda hit: hit[:2])
    return [(name, match) for _, name, match in hits]


def may_match(pattern: re.Pattern[bytes], text: bytes) -> bool:
    """Whether a pattern may match: `text` contains a literal of `_needed_by`, or the pattern has no such literals.

    A hundred times faster than a search.
    """
    needed = _needed_by(pattern)
    return not needed or any(each in text for each in needed)


@cache
def _needed_by(pattern: re.Pattern[bytes]) -> frozenset[bytes]:
    """Return literals: every match contains one or more of them. Empty if no literal is certain."""
    if pattern.flags & re.IGNORECASE:
        return frozenset()
    return _needed_in(_parser.parse(pattern.pattern, pattern.flags))


def _needed_in(parsed: Any) -> frozenset[bytes]:
    """Return `_needed_by` of a parsed pattern: of all such sets, the one whose shortest literal is longest."""
    found, run = [frozenset[bytes]()], b""
    for operation, argument in (*parsed, (None, None)):
        if operation is _constants.LITERAL:
            run += bytes([argument])
            continue
        found, run = [*found, frozenset([run])], b""
        if operation is _constants.SUBPATTERN and not argument[1] & re.IGNORECASE:
            found.append(_needed_in(argument[-1]))
        elif operation is _constants.BRANCH:
            branches = [_needed_in(branch) for branch in argument[1]]
            found += [frozenset().union(*branches)] if all(branches) else []
    best = max(found, key=lambda texts: min(map(len, texts), default=0))
    return best if all(best) else frozenset()


def report_read(path: Path, done: int, size: int) -> None:
    """Call every listener with the progress of a long file. `done` restarts at 0 if a file is read once more."""
    if size >= LONG:
        for listen in list(_listeners):
            listen(path.name, done, size)


@contextmanager
def read_listener(listen: OnRead) -> Iterator[None]:
    """Call `listen` with the progress of long files while the block runs."""
    _listeners.append(listen)
    try:
        yield
    finally:
        _listeners.remove(listen)


def read_file(path: Path) -> Iterator[bytes]:
    """Yield a file in chunks; the first one is small, because callers often need only that.

    One zero byte replaces a hole, because a log that was truncated while it is written may have gigabytes of holes.
    """
    with path.open("rb", buffering=0) as file:
        size, begin, whole = FIRST, 0, os.fstat(file.fileno()).st_size
        for first, end in _written_parts(file.fileno()):
            if first > begin:
                yield b"\0"
            file.seek(first)
            while first < end and (chunk := file.read(min(size, end - first))):
                report_read(path, first, whole)
                yield chunk
                first += len(chunk)
                size = CHUNK
            begin = end
        report_read(path, begin, whole)


def _written_parts(descriptor: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the written parts of a sparse file; (size, size) last if the file ends with a hole."""
    size, end = os.fstat(descriptor).st_size, 0
    while end < size:
        try:
            first = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            yield size, size  # the rest is a hole
            return
        end = os.lseek(descriptor, first, os.SEEK_HOLE)
        yield first, end


def slices(data: bytes, begin: int, end: int) -> Iterator[bytes]:
    """Yield data[begin:end] in chunks."""
    for position in range(begin, end, CHUNK):
        yield data[position : min(position + CHUNK, end)]


def windows(chunks: Iterable[bytes], *, base: int = 0, line: int = 1) -> Iterator[Window]:
    """Yield the windows of a log that starts at offset `base` and line `line` of its file."""
    data, start = b"", 0
    for chunk in chunks:
        data += chunk
        limit = len(data) - OVERLAP
        if limit <= start:
            continue
        window = Window(data, base, line, start, limit, last=False)
        yield window
        keep = max(0, limit - CONTEXT)
        line += int(window.breaks.searchsorted(keep))
        base += keep
        data, start = data[keep:], limit - keep
    yield Window(data, base, line, start, len(data), last=True)
