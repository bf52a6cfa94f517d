"""Turns a log of any size into the lines that a page shows: all of a small one; of a large one its ends and every line
that a value refers to."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from configs.schema import Frozen
from tasks.publish.text import shorten, visible
from tasks.records import Source

WHOLE_BYTES = 1_500_000  # a log up to this size is shown whole
WHOLE_LINES = 15_000
HEAD_LINES = 300
TAIL_LINES = 1_000
TAIL_CHARACTERS = 500_000
CONTEXT = 3  # lines around one that a named value refers to; a curve's points come without
LONGEST_LINE = 4_000  # characters


class ShownLine(Frozen):
    """One line of the log. `skipped` lines before it are not on the page."""

    number: int
    anchor: str
    text: str
    values: tuple[str, ...] = ()  # what on the page was read from here
    skipped: int = 0


class LogView(Frozen):
    """A run's log as the page shows it; `anchors` leads from a byte offset to the line that holds it."""

    title: str
    prefix: str
    shown: tuple[ShownLine, ...]
    anchors: dict[int, str]
    lines: int
    bytes: int
    skipped_at_end: int = 0
    file: str | None = None  # link to the whole text

    @property
    def whole(self) -> bool:
        return len(self.shown) == self.lines


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with its place in the run's text and, after reading, the references that fall into it."""

    ordinal: int
    text: str
    bytes: int
    found: tuple[int, ...]


def read_log(
    lines: Iterable[tuple[int, str]],
    references: Mapping[Source, tuple[str, ...]],
    *,
    title: str,
    prefix: str,
    copy: BinaryIO | None = None,
    file: str | None = None,
) -> LogView:
    """One pass over (byte offset, text) pairs in order; memory is bounded whatever the log's size.

    `references` maps every place that the page links to, to the names of the values read there (none for a curve's
    points). The whole text goes to `copy`, one line each. Lines are numbered as in the file that the references count
    in; where that is impossible (a log whose line breaks were lost is one line to them), from 1.
    """
    kept: list[_Line] = []
    window: deque[_Line] = deque()
    wanted: set[int] = set()
    size = total = window_size = 0
    overflow = False
    named = {source.offset for source, names in references.items() if names}
    for line in _with_references(lines, sorted({source.offset for source in references})):
        total += 1
        size += line.bytes
        if copy is not None:
            copy.write(line.text.encode("utf-8", "backslashreplace") + b"\n")
        if line.found:
            around = CONTEXT if named.intersection(line.found) else 0
            wanted.update(range(line.ordinal - around, line.ordinal + around + 1))
        short = _Line(line.ordinal, shorten(visible(line.text), LONGEST_LINE), line.bytes, line.found)
        window.append(short)
        window_size += len(short.text)
        overflow = overflow or window_size > WHOLE_BYTES or total > WHOLE_LINES
        while overflow and (len(window) > TAIL_LINES or window_size > TAIL_CHARACTERS) and len(window) > CONTEXT + 1:
            oldest = window.popleft()
            window_size -= len(oldest.text)
            if oldest.ordinal <= HEAD_LINES or oldest.ordinal in wanted:
                kept.append(oldest)
    kept.extend(window)
    return _number(kept, references, title=title, prefix=prefix, lines=total, size=size, file=file)


def _with_references(lines: Iterable[tuple[int, str]], offsets: list[int]) -> Iterator[_Line]:
    """Each line with the offsets that lie in it: from its own start up to the next line's."""
    waiting = deque(offsets)
    before: tuple[int, str] | None = None
    ordinal = 0
    for start, text in lines:
        if before is not None:
            ordinal += 1
            yield _line(ordinal, before, waiting, start)
        before = (start, text)
    if before is not None:
        end = before[0] + len(before[1].encode("utf-8", "surrogatepass")) + 1
        yield _line(ordinal + 1, before, waiting, end)


def _line(ordinal: int, line: tuple[int, str], waiting: deque[int], end: int) -> _Line:
    start, text = line
    while waiting and waiting[0] < start:
        waiting.popleft()  # not in this log
    found = []
    while waiting and waiting[0] < end:
        found.append(waiting.popleft())
    return _Line(ordinal, text, end - start, tuple(found))


def _number(
    kept: list[_Line],
    references: Mapping[Source, tuple[str, ...]],
    *,
    title: str,
    prefix: str,
    lines: int,
    size: int,
    file: str | None,
) -> LogView:
    ordinals = {offset: line.ordinal for line in kept for offset in line.found}
    shift = _shift(ordinals, references)
    values: dict[int, list[str]] = {}
    for source, names in references.items():
        if source.offset in ordinals:
            values.setdefault(ordinals[source.offset], []).extend(names)
    shown = []
    last = 0
    for line in kept:
        number = line.ordinal + shift
        shown.append(
            ShownLine(
                number=number,
                anchor=f"{prefix}-L{number}",
                text=line.text,
                values=tuple(dict.fromkeys(values.get(line.ordinal, ()))),
                skipped=line.ordinal - last - 1,
            )
        )
        last = line.ordinal
    return LogView(
        title=title,
        prefix=prefix,
        shown=tuple(shown),
        anchors={offset: f"{prefix}-L{ordinal + shift}" for offset, ordinal in ordinals.items()},
        lines=lines,
        bytes=size,
        skipped_at_end=lines - last,
        file=file,
    )


def _shift(ordinals: Mapping[int, int], references: Mapping[Source, tuple[str, ...]]) -> int:
    """What to add to a line's place in the run's text for its line in the file: what all references agree on, or 0."""
    shifts = {source.line - ordinals[source.offset] for source in references if source.offset in ordinals}
    return max(shifts.pop(), 0) if len(shifts) == 1 else 0
