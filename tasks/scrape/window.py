"""Cuts a stream of bytes into windows that overlap, so that a log of any size is read in constant memory."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.records import Source

CHUNK = 4 << 20  # bytes read at a time: small enough for the caches, large enough to be read as columns
FIRST = 1 << 20  # of those, where a file is looked at
OVERLAP = 64 << 10  # nothing we look for is longer: it is whole in the window in which it starts
TOGETHER_FROM, TOGETHER_WITHIN = 64, 2000  # stretches, and bytes from one to the next
COUNTED = 128 << 10  # bytes that are counted at a time, in the cache
SHORT = 4096  # bytes below which it pays to look for any of the literals first
CONTEXT = 4 << 10  # kept before a window's start, for what stands before a match (prefixes)


@dataclass(frozen=True)
class Window:
    """A stretch of a log. What starts at `start <= position < limit` belongs to it; the rest is context."""

    data: bytes
    base: int  # offset of data[0] in the file
    line: int  # 1-based number of the line that data[0] stands on
    start: int
    limit: int
    last: bool  # nothing comes after

    @cached_property
    def breaks(self) -> NDArray[np.int64]:
        """The positions of the line breaks in data."""
        return np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord("\n"))

    def is_last_line(self, position: int) -> bool:
        """Whether no line break stands behind a position in `data`."""
        return not self.breaks.size or int(self.breaks[-1]) < position

    def source(self, position: int) -> Source:
        """Line and offset in the file of a position in `data`."""
        return Source(line=self.line + int(self.breaks.searchsorted(position)), offset=self.base + position)


class Patterns:
    """What is looked for in windows, by name. `hints`: texts of which one stands in each match of a name, found a
    hundred times faster; `literals`: a pattern that stands in all of them."""

    def __init__(self, patterns: Mapping[str, bytes], hints: Mapping[str, tuple[bytes, ...]], literals: bytes) -> None:
        self.of = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self._hints, self._any = hints, re.compile(literals)

    def __getitem__(self, name: str) -> re.Pattern[bytes]:
        return self.of[name]

    def find(self, window: Window, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[str, re.Match[bytes]]]:
        """(name, match) of all that starts in these stretches and before the window's limit, ascending.

        Between many rows the stretches are looked through as one: no row holds what is looked for.
        """
        if spans and len(spans) > max(TOGETHER_FROM, (spans[-1][1] - spans[0][0]) // TOGETHER_WITHIN):
            spans = [(spans[0][0], spans[-1][1])]
        for begin, end in spans:
            if begin < window.limit and (end - begin > SHORT or self._any.search(window.data, begin, end)):
                yield from self._find(window, begin, end)

    def _find(self, window: Window, begin: int, end: int) -> Iterator[tuple[str, re.Match[bytes]]]:
        hits = [
            (match.start(), name, match)
            for name, pattern in self.of.items()
            if name not in self._hints or any(window.data.find(text, begin, end) >= 0 for text in self._hints[name])
            for match in pattern.finditer(window.data, begin, end)
            if match.start() < window.limit
        ]
        hits.sort(key=lambda hit: hit[:2])
        for _, name, match in hits:
            yield name, match


@dataclass(frozen=True)
class FileText:
    """The bytes of a file, as often as asked."""

    path: Path

    def __call__(self, begin: int = 0) -> Iterator[bytes]:
        """From an offset on, in chunks; the first is small, because often it is all that is wanted."""
        with self.path.open("rb", buffering=0) as file:
            file.seek(begin)
            size = FIRST
            while chunk := file.read(size):
                yield chunk
                size = CHUNK

    def without_holes(self, begin: int = 0) -> Iterator[bytes]:
        """From an offset on, with one zero byte for each hole: the stretches of a file that were never written."""
        with self.path.open("rb", buffering=0) as file:
            for first, end in _written(file.fileno(), begin):
                if first > begin:
                    yield b"\0"
                file.seek(first)
                while first < end and (chunk := file.read(min(CHUNK, end - first))):
                    yield chunk
                    first += len(chunk)
                begin = end

    def windows(self) -> Iterator[Window]:
        """As windows. What two of them share is read twice, which costs less than to put it together."""
        size = CONTEXT + CHUNK + OVERLAP
        base, line, start = 0, 1, 0
        with self.path.open("rb", buffering=0) as file:
            while True:
                data = os.pread(file.fileno(), size, base)
                while len(data) < size and (more := os.pread(file.fileno(), size - len(data), base + len(data))):
                    data += more
                if len(data) < size:
                    yield Window(data, base, line, start, len(data), last=True)
                    return
                limit = size - OVERLAP
                yield Window(data, base, line, start, limit, last=False)
                line += count_breaks(data, limit - CONTEXT)
                base, start = base + limit - CONTEXT, CONTEXT


def _written(descriptor: int, begin: int) -> Iterator[tuple[int, int]]:
    """Begin and end of the stretches of a file that its file system keeps, from an offset on; at least its end."""
    size = os.fstat(descriptor).st_size
    while begin < size:
        try:
            first = os.lseek(descriptor, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            yield size, size  # nothing but a hole
            return
        begin = os.lseek(descriptor, first, os.SEEK_HOLE)
        yield first, begin


def windows(chunks: Iterable[bytes], *, base: int = 0, line: int = 1, start: int = 0) -> Iterator[Window]:
    """Turn the chunks of a log that starts at offset `base` and line `line` of its file into windows.

    `start`: how much of the first chunk is no more than context.
    """
    data = b""
    for chunk in chunks:
        data += chunk
        limit = len(data) - OVERLAP
        if limit <= start:
            continue
        window = Window(data, base, line, start, limit, last=False)
        yield window
        keep = max(0, limit - CONTEXT)
        line += count_breaks(data, keep)
        base += keep
        data, start = data[keep:], limit - keep
    yield Window(data, base, line, start, len(data), last=True)


def count_breaks(data: bytes, end: int) -> int:
    """How many line breaks stand in data[:end]; much faster than `bytes.count`, which stops at each."""
    text = np.frombuffer(data, np.uint8)
    blocks = range(0, end, COUNTED)
    return sum(int(np.count_nonzero(text[begin : min(begin + COUNTED, end)] == ord("\n"))) for begin in blocks)


def slices(data: bytes, begin: int, end: int) -> Iterator[bytes]:
    """data[begin:end] in chunks."""
    for position in range(begin, end, CHUNK):
        yield data[position : min(position + CHUNK, end)]
