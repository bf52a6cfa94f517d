"""Writes a log of any size as pieces that the page loads on demand, and maps its byte offsets to line numbers.

The text of a run can be a part of its log file: other runs may be before it. The page numbers lines as the log file
does: the number in the run's text (from 1) plus `LogView.lines_before`, which is 0 if unknown.
"""

import base64
import json
import re
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tasks.publish.page.replace_text import replace_bytes, replace_text
from tasks.records.shared_fields import Source
from tasks.records.text import shorten, visible

PIECE = 1_000_000  # characters; a piece ends with the line that reaches this size
LINES_BEFORE_DEATH = 12  # lines shown up to and including the cause of death
MAX_FOLDS = 2_000  # tracebacks per log that can be folded
MAX_TEXT_LENGTH = 300  # characters of a line that is shown outside of the log, such as a traceback's cause
MAX_TRACEBACK_LINES = 2_000  # longer tracebacks are not folded
MAX_KIND_LENGTH = 400  # characters at the start of a line that decide its kind
MAX_KINDS = 20_000  # kinds per log; lines of further kinds are not counted

_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Fault|Iteration)?(?::|$)")

# Parts of a line that differ between runs of one program. _MOMENT: a time, or the prefix of glog with time and process,
# at the beginning. _OWN: dates, paths, hashes and numbers.
_MOMENT = re.compile(r"^(?:\[?[\d:.,TZ+-]+(?: [\d:.,Z+-]+)*\]? ?|[IWEF]\d{4} [\d:.]+ +\d+ )")
_OWN = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2}\b|\S*/\S*"
    r"|0x[0-9a-fA-F]+|\b(?=\w*\d)[0-9a-f]{7,}\b|[-+]?\d[\d.,:_]*(?:e[-+]?\d+)?"
)

_DIGITS = b"0123456789"
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
BITS = 1 << 15  # number of bits in the filter of a `SearchFilter`
MAX_FILTERED_BYTES = 300_000  # bytes of all distinct lines of a piece; a piece with more gets no filter, to save time


def kind_of(text: str) -> str:
    """Return the beginning of a line without the parts that differ between runs of one program.

    A time at the beginning is removed. Numbers, paths, hashes and dates become `#`. Text after the first
    MAX_KIND_LENGTH characters is ignored.
    """
    return " ".join(_OWN.sub("#", _MOMENT.sub("", text[:MAX_KIND_LENGTH], count=1)).split())


@dataclass
class Kind:
    """The lines of a log for which `kind_of` returns the same text."""

    count: int
    place: int  # number of the first line in the run's text, from 1
    text: str  # the first line, shortened


@dataclass
class LogView:
    """A run's log on the page: its pieces are in `logs/<prefix>-<n>.js`, the complete text in `file`.

    With several pieces, `logs/<prefix>-letters.js` has one filter per piece (see `SearchFilter`). A search skips the
    pieces whose filter shows that they lack the searched word.
    """

    title: str
    prefix: str  # name of the log in its file names and anchors
    file: str  # relative to the page's folder
    size: int = 0  # bytes of the complete text
    pieces: list[tuple[int, int]] = field(default_factory=list)  # per piece: number of its first line, line count
    folds: list[tuple[int, int, str]] = field(default_factory=list)  # per traceback: first line, last line, cause
    values: dict[int, list[str]] = field(
        default_factory=dict
    )  # number of a line -> names of the page's values that were read from it
    before_death: list[str] = field(
        default_factory=list
    )  # the last lines up to the one with the cause of death, shortened
    kinds: dict[str, Kind] = field(default_factory=dict)  # text that `kind_of` returns -> the lines with this text
    _quick: dict[bytes, Kind] = field(default_factory=dict, repr=False)  # cache: line without digits -> kind
    starts: array[int] = field(default_factory=lambda: array("q"))  # byte offset of every line in the log file
    end: int = 0  # byte offset after the last line in the log file
    lines_before: int = 0  # lines of the log file before the run's text; 0 if unknown

    @property
    def lines(self) -> int:
        return len(self.starts)

    def number(self, offset: int) -> int | None:
        """Return the page's number of the line with byte `offset` of the log file; None if the run's text lacks it."""
        if not self.starts or not self.starts[0] <= offset < self.end:
            return None
        return bisect_right(self.starts, offset) + self.lines_before

    def anchor(self, offset: int) -> str | None:
        """Return the anchor of the line with the byte `offset` of the log file; None if the run's text lacks it."""
        number = self.number(offset)
        return None if number is None else f"{self.prefix}-L{number}"

    def count_kind(self, data: bytes, text: str) -> None:
        """Count the last line under its kind, unless `kind_of` returns "" or it is a new kind beyond MAX_KINDS.

        data: the line's bytes. text: the line as displayed.
        """
        quick = data[:MAX_KIND_LENGTH].translate(None, _DIGITS)  # most lines differ from another line by digits only
        known = self._quick.get(quick)
        if known is None:
            kind = kind_of(text)
            known = self.kinds.get(kind)
            if known is None and kind and len(self.kinds) < MAX_KINDS:
                known = self.kinds[kind] = Kind(count=0, place=self.lines, text=shorten(text, MAX_TEXT_LENGTH))
            if known is not None and len(self._quick) < MAX_KINDS:
                self._quick[quick] = known
        if known is not None:
            known.count += 1

    def to_json(self) -> dict[str, object]:
        """Return the data with which the page's script shows the log."""
        return {
            "pieces": self.pieces,
            "folds": self.folds,
            "values": {number: ", ".join(dict.fromkeys(names)) for number, names in sorted(self.values.items())},
            "lines": self.lines,
        }


def write_log(
    lines: Iterable[tuple[int, str]],
    references: Mapping[Source, tuple[str, ...]],
    folder: Path,
    *,
    title: str,
    prefix: str,
    death: int | None = None,
) -> LogView:
    """Write the files of a run's log and return its view. Needs constant memory, plus 8 bytes per line.

    lines: (byte offset in the log file, text) of each line of the run's text.
    references: position in the log file -> names of the values that were read there; a position without names only
        helps to find `LogView.lines_before`.
    death: byte offset of the cause of death in the log file.

    Raises StoreError if a file cannot be written.
    """
    view = LogView(title=title, prefix=prefix, file=f"logs/{prefix}.txt")
    texts: list[str] = []  # of the current piece
    last: deque[str] = deque(maxlen=LINES_BEFORE_DEATH)
    folds, search_filter = _Folds(), SearchFilter()
    filters: list[str] = []

    def write_piece(*, only: bool = False) -> None:
        nonlocal search_filter
        view.pieces.append((view.lines - len(texts) + 1, len(texts)))
        filters.append("" if only else search_filter.filter())
        search_filter = SearchFilter()
        number, text = len(view.pieces), json.dumps("\n".join(texts), ensure_ascii=False)
        replace_text(folder / f"logs/{prefix}-{number}.js", f'maxviewLog("{prefix}",{number},{text});\n')
        texts.clear()

    def copy() -> Iterator[bytes]:
        size = 0
        for offset, raw in lines:
            data = raw.encode("utf-8", "backslashreplace") + b"\n"
            yield data
            view.starts.append(offset)
            view.size += len(data)
            view.end = offset + len(raw.encode("utf-8", "surrogatepass")) + 1
            text = visible(raw)
            folds.take(view.lines, text)
            view.count_kind(data, text)
            last.append(shorten(text, MAX_TEXT_LENGTH))
            if death is not None and offset <= death < view.end:
                view.before_death = list(last)
            search_filter.take(text)
            texts.append(text)
            size += len(text)
            if size >= PIECE:
                write_piece()
                size = 0
        if texts:
            write_piece(only=not view.pieces)

    replace_bytes(folder / view.file, copy())
    filter_file = folder / f"logs/{prefix}-letters.js"
    if len(view.pieces) > 1:
        replace_text(filter_file, f'maxviewLetters("{prefix}",{json.dumps(filters)});\n')
    else:
        filter_file.unlink(missing_ok=True)
    for number in count(len(view.pieces) + 1):  # delete the other pieces of an earlier, longer log
        old = folder / f"logs/{prefix}-{number}.js"
        if not old.exists():
            break
        old.unlink()
    view.lines_before = before = _count_lines_before(view, references)
    view.pieces = [(first + before, lines) for first, lines in view.pieces]
    view.folds = [(first + before, end + before, cause) for first, end, cause in folds.found]
    for source, names in references.items():
        place = view.number(source.offset)
        if place is not None and names:
            view.values.setdefault(place, []).extend(names)
    return view


def _count_lines_before(view: LogView, references: Mapping[Source, tuple[str, ...]]) -> int:
    """Return how many lines of the log file are before the run's text, by the line numbers of the references.

    Returns 0 without references, if they disagree, or if the result would be negative. The last two happen if the log
    file lost its line breaks: in the file, every reference is on line 1, but the run's text is split into lines.
    """
    numbers = [(source.line, view.number(source.offset)) for source in references]
    differences = {in_file - in_text for in_file, in_text in numbers if in_text is not None}
    return max(differences.pop(), 0) if len(differences) == 1 else 0


class _Folds:
    """Finds tracebacks, each from its first line to its exception. Chained tracebacks count as one."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, str]] = []  # first line, last line, cause
        self._first: int | None = None  # first line of the unfinished traceback, numbered in the run's text
        self._margin = 0  # length of the logger's prefix in each line of the traceback
        self._chained = 0  # line of the last exception, 0: none; a traceback within 4 lines after it is chained to it

    def take(self, place: int, text: str) -> None:
        """Process the next line; `place`: its number in the run's text."""
        at = text.find(_TRACEBACK)
        if at >= 0 and len(self.found) < MAX_FOLDS:
            if self._first is None and not (self._chained and place - self._chained <= 4):
                self._first, self._margin = place, at
            elif self._first is None:
                self._first = self.found.pop()[0]
            return
        if self._first is None:
            return
        rest = text[self._margin :]
        if place - self._first > MAX_TRACEBACK_LINES:
            self._first = None
        elif rest[:1] not in (" ", "", "\t") and not rest.startswith(("During handling", "The above exception")):
            cause = rest if _CAUSE.match(rest) else f"traceback, then: {rest}"
            self.found.append((self._first, place, shorten(cause, MAX_TEXT_LENGTH)))
            self._first, self._chained = None, place


class SearchFilter:
    """Collects the distinct lines of one piece and makes its filter.

    Lines that differ only in case or digits count as one line. The filter lets a search skip a piece that lacks the
    searched word. For every three consecutive bytes of a line, in lower case and with 0 for every digit, the bit at
    their hash is set. A piece can contain a word only if the bits of all triples of ASCII bytes in the word are set;
    the page's script checks this (`mayHold`).
    """

    def __init__(self) -> None:
        self._lines: set[bytes] = set()
        self._bytes = 0

    def take(self, text: str) -> None:
        """Add a line as the page displays it."""
        if self._bytes > MAX_FILTERED_BYTES:
            return
        line = text.lower().encode("utf-8").translate(_ZEROS)
        if line not in self._lines:
            self._lines.add(line)
            self._bytes += len(line)

    def filter(self) -> str:
        """Return the filter in base64; empty if the piece is too large for one."""
        if self._bytes > MAX_FILTERED_BYTES:
            return ""
        threes: set[tuple[int, int, int]] = set()
        for line in self._lines:
            threes.update(zip(line, line[1:], line[2:], strict=False))
        bits = bytearray(BITS // 8)
        for first, second, third in threes:
            place = (first << 10 ^ second << 5 ^ third) % BITS
            bits[place >> 3] |= 1 << (place & 7)
        return base64.b64encode(bits).decode()
