"""Reads one traceback from a log, with or without line breaks, and finds signs that it did not end the process.

The header of a traceback is `Traceback (most recent call last):`. All lines of a traceback may have the same prefix,
called its mark: `[rank0]: `, `(RayTrainWorker pid=354) `, `trainer-1  | `, `2025-08-28 10:00:00 INFO - `, `> `, an
indentation. The text before the header on its line is the mark if a line below begins with the same text, or if the
next line begins with the same text and other numbers (a time). Lines of other ranks, with other marks, may be between
the lines of a traceback.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from tasks.scrape.prefixes import ABSL, PREFIX
from tasks.scrape.window import OVERLAP, text_of

# with line breaks: indented lines, then `Type: message` without indentation
_HEADER = b"Traceback (most recent call last)"
_HEADER_LINE = re.compile(rb"Traceback \(most recent call last\):[ \t]*\r?\n")
_LAST_LINE = re.compile(rb"([A-Za-z_][\w.]*)(?:: (.*))?")
# Ray prints such a line before the frames and the exception of a worker, without another header; the line is skipped
_REMOTE = re.compile(rb"(?:ray\.exceptions\.)?RayTaskError\([\w.]+\): |ray::")
# every line of an ExceptionGroup begins with a margin
_MARGIN = re.compile(rb"[ \t]*[|+] (?:Exception Group )?")
# a notebook's header line: exception name, blanks, `Traceback (most recent call last)`
_NOTEBOOK = re.compile(rb"[ \t]*([A-Za-z_]\w{2,80}) {2,}")
_FRAME = re.compile(rb"File \"([^\"\n]*)\", line \d+(?:, in \S+)?")
_NAMED = re.compile(
    rb"(?<=\s)((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Timeout|StopTraining|Group))"
    rb"(?:: ([^\n]*)|(?=\s*\Z))"
)
_STOP = re.compile(
    rb"Traceback \(most recent call last\):|During handling of the above exception|The above exception was the direct|"
    rb"XPK End:|EXIT_CODE=|%s" % ABSL
)
# a line that follows a multi-line message, e.g. JAX's horizontal rule
_BELOW = re.compile(rb"-{20}\s*\Z|For simplicity, JAX has removed|[|+] |\s+\+-")
LINES_BELOW, BYTES_BELOW = 12, 2000  # limits of the further lines of a message: number, bytes

_CHAINED = re.compile(rb"(?:During handling of the above exception|The above exception was the direct)[^\n]*\s*\Z")
# (text before a traceback whose exception may not have ended the process, the reason in words)
_WEAK = (
    (re.compile(rb"Error in atexit\._run_exitfuncs:\s*\Z"), "at exit"),
    (re.compile(rb"Exception in thread [^\n]*:\s*\Z"), "in a thread"),
    (re.compile(rb"exception was never retrieved\n(?:future: [^\n]*\n)?\s*\Z"), "in a task that was never awaited"),
    (re.compile(rb"(?:\A|\n)(?:ERROR|WARNING|CRITICAL)(?::|\s-)[^\n]*\n\Z"), "logged"),
    (re.compile(rb"[EWF]\d{4} \S+ +\d+ [\w.+-]+\.py:\d+\] ?[^\n]*\n?\s*\Z"), "logged"),
)
# text before the traceback of an error that the interpreter ignored, or of an optional import (NeMo's `safe_import`)
_IGNORED = re.compile(rb"(?:Exception ignored in[^\n]*|\bImport of [^\n]{1,200} failed with:)\s*\Z")
BYTES_ABOVE = 6000  # bytes before the header that are searched; a task that failed is shown in 2,700
MAX_MARK_LENGTH = 200  # bytes; longer text before the header on its line is not a mark
MARKED_WITHIN = 40  # number of lines below the header, of all ranks; one of these lines must begin with the mark
_NUMBER = re.compile(rb" *\d+")
NO_MARK, _IN_GROUP = b"", rb"[ \t]*\| ?"  # patterns of a mark: no mark; the margin of an ExceptionGroup's lines


def marks_of(data: bytes, position: int, limit: int) -> list[bytes]:
    """Return patterns for the mark of the traceback whose header is at `position`, the most likely one first."""
    begin = data.rfind(b"\n", max(0, position - MAX_MARK_LENGTH), position) + 1
    before = data[begin:position]
    if not before or (begin == 0 and position > MAX_MARK_LENGTH):
        return [NO_MARK]
    if begin and _MARGIN.fullmatch(before):
        return [_IN_GROUP]
    found, plain = [], before.rstrip()
    if any(line.startswith(before) for _, line in islice(lines_below(data, position, limit, NO_MARK), MARKED_WITHIN)):
        blanks = re.escape(before[len(plain) :])  # empty lines lack trailing blanks
        found.append(re.escape(plain) + (rb"(?:%s|(?=\r?(?:\n|\Z)))" % blanks if blanks else b""))
    text = rb" *\d+".join(re.escape(piece) for piece in _NUMBER.split(before))
    if _NUMBER.search(before) and re.compile(rb"[^\n]*\n" + text).match(data, position, limit):
        found.append(text)
    return [*found, NO_MARK]


def lines_below(data: bytes, position: int, limit: int, mark: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, line without mark and line break) of the lines with this mark between `position` and `limit`."""
    for line in re.compile(rb"\n%s([^\n]*)" % mark).finditer(data, position, limit):
        yield line.start(1), line[1].rstrip(b"\r")


def lines_above(data: bytes, position: int, first: int, mark: bytes) -> bytes:
    """Return the text of the lines with this mark between `first` and the header at `position`, without marks."""
    if not mark:
        return data[first:position]
    lines = re.compile(rb"(?m)^%s([^\n]*\n)" % mark).finditer(data[first:position])
    return b"".join(line[1] for line in lines)


@dataclass(frozen=True)
class Raised:
    """An exception in a log."""

    type: str
    message: str
    position: int  # index in the searched bytes at which the text `Type: message` begins
    end: int  # index at which this text ends
    detail: str = ""  # further lines of the message
    file: str = ""  # name of the file that raised it, without folders
    mark: bytes = NO_MARK  # pattern of the mark of the traceback's lines
    before: bytes = b""  # text before the traceback, of lines with the same mark
    grouped: bool = False  # the exception is inside an ExceptionGroup

    @property
    def text(self) -> str:
        """The text by which the exception is classified."""
        head = f"{self.type}: {self.message}" if self.message else self.type
        return "\n".join(part for part in (head, self.detail, self.file and f"in {self.file}") if part)


def read_exception(data: bytes, position: int) -> Raised | None:
    """Return the exception of the traceback with the header at `position`.

    Returns None if no exception is found below the header, or if Python ignored the exception.
    """
    limit = position + OVERLAP
    marks = marks_of(data, position, limit)
    in_group = _IN_GROUP in marks
    before = lines_above(data, position, max(0, position - BYTES_ABOVE), NO_MARK if in_group else marks[0])
    if _IGNORED.search(before):
        return None
    if data.startswith(b":", position + len(_HEADER)):
        marks = marks if _HEADER_LINE.match(data, position) else []
        read = (_read_last(lines_below(data, position, limit, mark), mark) for mark in marks)
        raised = next(filter(None, read), None) or _read_joined(data, position)
    else:
        raised = _read_notebook(data, position)
    if raised is None or not in_group:
        return raised and replace(raised, before=before)
    return replace(raised, before=before, mark=NO_MARK, grouped=not data.startswith(b"Group", position - 6))


def is_chained(raised: Raised) -> bool:
    """Whether an exception is in an ExceptionGroup, or the log states that it followed from the exception before."""
    return raised.grouped or bool(_CHAINED.search(raised.before))


def weakness(raised: Raised) -> str:
    """Return the reason why an exception may not have ended its process; "" if there is no reason."""
    for pattern, words in _WEAK:
        if pattern.search(raised.before):
            return words
    # a logger's prefix right before the traceback: the program caught and logged the exception
    records = list(PREFIX.finditer(raised.before))
    return "logged" if records and not raised.before[records[-1].end() :].strip() else ""


def _read_last(lines: Iterator[tuple[int, bytes]], mark: bytes) -> Raised | None:
    """Return the exception in the lines below a header: the first line without indentation, after the frames."""
    file = b""
    for start, text in lines:
        line = text.rstrip()
        # other threads may log between the lines
        if line and not line[:1].isspace() and not PREFIX.match(line) and not _REMOTE.match(line):
            last = _LAST_LINE.fullmatch(line)
            if last is None:
                return None
            return _raised(last[1], last[2], start, start + len(line), file, _read_further_lines(lines), mark)
        if frame := _FRAME.search(line):
            file = frame[1]
    return None


def _read_further_lines(lines: Iterator[tuple[int, bytes]]) -> bytes:
    """Return the further lines of a multi-line message."""
    below: list[bytes] = []
    size = 0
    for _, text in islice(lines, LINES_BELOW):
        line = text.rstrip()
        size += len(text)
        if not line or PREFIX.match(line) or _STOP.search(line) or _BELOW.match(line) or size > BYTES_BELOW:
            break
        below.append(line)
    return b"\n".join(below)


def _read_notebook(data: bytes, position: int) -> Raised | None:
    """Return the exception of a notebook's `XlaRuntimeError   Traceback (…)`, from the next line with that name."""
    begin = data.rfind(b"\n", max(0, position - BYTES_ABOVE), position) + 1
    named = _NOTEBOOK.fullmatch(data, begin, position)
    if named is None:
        return None
    line = re.compile(rb"(?m)^((?:\w+\.)*%s)(?:: ([^\n]*?))?[ \t]*\r?$" % re.escape(named[1]))
    last = line.search(data, position, position + OVERLAP)
    return _raised(last[1], last[2], last.start(), last.end(), b"") if last else None


def _read_joined(data: bytes, position: int) -> Raised | None:
    """Return the exception of a traceback without line breaks; None if no text looks like an exception's name."""
    stop = _STOP.search(data, position + 9, position + OVERLAP)
    end = stop.start() if stop else position + OVERLAP
    frames = list(_FRAME.finditer(data, position, end))
    named = _NAMED.search(data, frames[-1].end() if frames else position + 9, end)
    file = frames[-1][1] if frames else b""
    return _raised(named[1], named[2], named.start(), named.end(), file) if named else None


def _raised(
    kind: bytes, message: bytes | None, position: int, end: int, file: bytes, below: bytes = b"", mark: bytes = NO_MARK
) -> Raised:
    of_type, words, detail, path = map(text_of, (kind, message, below, file))
    return Raised(of_type, words.strip(), position, end, detail, path.replace("\\", "/").rsplit("/", 1)[-1], mark)
