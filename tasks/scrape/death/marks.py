"""Takes off a traceback what a launcher, a collector of logs or a person put before each of its lines: `[rank0]: `,
`(RayTrainWorker pid=354) `, `trainer-1  | `, `2025-08-28 10:00:00 INFO - `, `> `, an indentation.

What stands before `Traceback (most recent call last):` on its line is such a mark if a line right below has it too:
exactly (the lines of other ranks, which have theirs, may stand between), or but for its numbers, which are a time's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 200  # bytes before the header
LINES = 40  # below the header, in which a mark comes again, whoever else writes between them
_NUMBER = re.compile(rb" *\d+")


@dataclass(frozen=True)
class Mark:
    """What each line of one writer begins with; `name` is the same for all of them."""

    name: bytes
    pattern: re.Pattern[bytes] | None = None  # None: `name` itself

    def end(self, line: bytes) -> int | None:
        """Where the mark ends that a line begins with; None if it has none."""
        if self.pattern is not None:
            found = self.pattern.match(line)
            return found.end() if found else None
        if line.startswith(self.name):
            return len(self.name)
        return len(line) if line == self.name.rstrip() else None  # an empty line lost its blanks


NO_MARK = Mark(b"")


def marks_of(data: bytes, position: int, limit: int) -> list[Mark]:
    """What the lines of the traceback whose header is at a position may begin with; the likeliest first."""
    begin = data.rfind(b"\n", max(0, position - LONGEST), position) + 1
    if begin == 0 and position > LONGEST:
        return [NO_MARK]
    before = data[begin:position]
    if not before:
        return [NO_MARK]
    lines = [line for _, line in _lines(data, position, limit, LINES)]
    found = []
    if any(line.startswith(before) for line in lines):
        found.append(Mark(before))
    if _NUMBER.search(before):
        text = b" *\\d+".join(re.escape(piece) for piece in _NUMBER.split(before))
        pattern = re.compile(text)
        if lines and pattern.match(lines[0]):
            found.append(Mark(text, pattern))
    return [*found, NO_MARK]


def lines_below(data: bytes, position: int, limit: int, mark: Mark) -> Iterator[tuple[int, bytes]]:
    """(where it begins, the line without its mark and its line break) of the writer's lines below a position's."""
    lines = _lines(data, position, limit) if mark.pattern else _lines_with(data, position, limit, mark.name.rstrip())
    for begin, line in lines:
        end = mark.end(line)
        if end is not None:
            yield begin + end, line[end:]


def lines_above(data: bytes, position: int, first: int, mark: Mark) -> bytes:
    """What the writer put before the header at a position, from `first` on, with line breaks and without marks."""
    before = data[first:position]
    if not mark.name:
        return before
    *lines, _ = before.split(b"\n")
    ends = [mark.end(line) for line in lines]
    return b"".join(line[end:] + b"\n" for line, end in zip(lines, ends, strict=True) if end is not None)


def _lines(data: bytes, position: int, limit: int, most: int = -1) -> Iterator[tuple[int, bytes]]:
    """(begin, line without its break) of the lines below a position's, up to one that `limit` cuts."""
    begin = data.find(b"\n", position, limit) + 1
    return all_lines(data, begin, limit, most) if begin else iter(())


def _lines_with(data: bytes, position: int, limit: int, start: bytes) -> Iterator[tuple[int, bytes]]:
    """Those that begin so; between them may stand those of a thousand other ranks."""
    start = b"\n" + start
    before = data.find(start, position, limit)
    while before >= 0:
        end = data.find(b"\n", before + 1, limit)
        stop = limit if end < 0 else end
        yield before + 1, data[before + 1 : stop].rstrip(b"\r")
        before = data.find(start, stop, limit)


def all_lines(data: bytes, begin: int, limit: int, most: int = -1) -> Iterator[tuple[int, bytes]]:
    """(begin, line without its break) of the lines from where one begins, up to one that `limit` cuts."""
    while begin < limit and most != 0:
        end = data.find(b"\n", begin, limit)
        stop = limit if end < 0 else end
        yield begin, data[begin:stop].rstrip(b"\r")
        begin, most = (end + 1 if end >= 0 else limit), most - 1
