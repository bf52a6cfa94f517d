"""Writes a log of any size as pieces that the page loads on demand, and maps its byte offsets to line numbers."""

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
from tasks.records import Source
from tasks.records.text import shorten, visible

PIECE = 1_000_000  # characters per piece
LINES_BEFORE_DEATH = 12
MAX_FOLDS = 2_000  # tracebacks that can be folded
MAX_CAUSE_LENGTH = 300  # characters
MAX_TRACEBACK_LINES = 2_000  # lines
MAX_KIND_LENGTH = 400  # characters at the start of a line that decide its kind
MAX_KINDS = 20_000  # lines of further kinds are not counted

_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Fault|Iteration)?(?::|$)")

# the parts of a line that differ between runs of one program: time, host, process, path, number
_MOMENT = re.compile(r"^(?:\[?[\d:.,TZ+-]+(?: [\d:.,Z+-]+)*\]? ?|[IWEF]\d{4} [\d:.]+ +\d+ )")
_OWN = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2}\b|\S*/\S*"
    r"|0x[0-9a-fA-F]+|\b(?=\w*\d)[0-9a-f]{7,}\b|[-+]?\d[\d.,:_]*(?:e[-+]?\d+)?"
)

_DIGITS = b"0123456789"
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
BITS = 1 << 15  # bits of a filter
MAX_BYTES = 300_000  # of distinct lines; a piece with more gets no filter, to save time


def kind_of(text: str) -> str:
    """Return a line without the parts that differ between runs of one program: times, numbers, paths."""
    return " ".join(_OWN.sub("#", _MOMENT.sub("", text[:MAX_KIND_LENGTH], count=1)).split())


@dataclass
class Kind:
    """The lines that are equal except for times, numbers and paths (`kind_of`)."""

    count: int
    place: int  # number of the first line in the run's text, from 1
    text: str  # the first line, shortened


@dataclass
class LogView:
    """A run's log on the page: its pieces are in `logs/<prefix>-<n>.js`, the complete text in `file`.

    With several pieces, the filters in `logs/<prefix>-letters.js` exclude pieces from a search.
    """

    title: str
    prefix: str
    file: str
    size: int = 0  # bytes
    pieces: list[tuple[int, int]] = field(default_factory=list)  # per piece: number of its first line, line count
    folds: list[tuple[int, int, str]] = field(default_factory=list)  # per traceback: first line, last line, cause
    values: dict[int, list[str]] = field(
        default_factory=dict
    )  # line number -> names of the page's values that were read there
    before_death: list[str] = field(default_factory=list)  # the last lines, up to the cause of death
    kinds: dict[str, Kind] = field(default_factory=dict)  # `kind_of` a line -> its kind
    _quick: dict[bytes, Kind] = field(default_factory=dict, repr=False)  # cache: line without digits -> its kind
    starts: array[int] = field(default_factory=lambda: array("q"))  # byte offset of every line
    end: int = 0  # byte offset after the last line
    shift: int = 0  # number of a line in the file minus its number in the run's text

    @property
    def lines(self) -> int:
        return len(self.starts)

    def number(self, offset: int) -> int | None:
        """Return the number of the line that contains the byte `offset`; None if the log does not contain it."""
        if not self.starts or not self.starts[0] <= offset < self.end:
            return None
        return bisect_right(self.starts, offset) + self.shift

    def anchor(self, offset: int) -> str | None:
        """Return the anchor of the line that contains the byte `offset`; None if the log does not contain it."""
        number = self.number(offset)
        return None if number is None else f"{self.prefix}-L{number}"

    def count_kind(self, data: bytes, text: str) -> None:
        """Add the last line to the count of its kind. `data`: the line's bytes, `text`: the line as displayed."""
        quick = data[:MAX_KIND_LENGTH].translate(None, _DIGITS)  # most lines differ from another line by digits only
        known = self._quick.get(quick)
        if known is None:
            kind = kind_of(text)
            known = self.kinds.get(kind)
            if known is None and kind and len(self.kinds) < MAX_KINDS:
                known = self.kinds[kind] = Kind(count=0, place=self.lines, text=shorten(text, MAX_CAUSE_LENGTH))
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
    """Write the log's files from (byte offset, text) pairs; keep one piece and 8 bytes per line in memory.

    `references` maps sources to the names of the values read there; `death` is the byte offset of the cause of death.
    Lines have the numbers of the original file if all references agree on the shift, else they are numbered from 1. The
    references disagree for a log without line breaks, because all of them name one line.

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
            last.append(shorten(text, MAX_CAUSE_LENGTH))
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
    view.shift = _shift(view, references)
    view.pieces = [(first + view.shift, lines) for first, lines in view.pieces]
    view.folds = [(first + view.shift, end + view.shift, cause) for first, end, cause in folds.found]
    for source, names in references.items():
        place = view.number(source.offset)
        if place is not None and names:
            view.values.setdefault(place, []).extend(names)
    return view


def _shift(view: LogView, references: Mapping[Source, tuple[str, ...]]) -> int:
    """Return line number in the file minus line number in the run's text, if all references agree on it, else 0."""
    places = [(source.line, view.number(source.offset)) for source in references]
    shifts = {line - place for line, place in places if place is not None}
    return max(shifts.pop(), 0) if len(shifts) == 1 else 0


class _Folds:
    """Finds tracebacks, each from its first line to its exception. Chained tracebacks count as one."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, str]] = []
        self._first: int | None = None  # first line of the unfinished traceback
        self._margin = 0  # length of the logger's prefix before each of its lines
        self._chained = 0  # line of the last exception; a traceback within 4 lines of it belongs to the same chain

    def take(self, place: int, text: str) -> None:
        """Process the next line; `place`: its number."""
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
            self.found.append((self._first, place, shorten(cause, MAX_CAUSE_LENGTH)))
            self._first, self._chained = None, place


class SearchFilter:
    """Collects the distinct lines of one piece and makes its filter. Lines that differ only in digits count as one.

    The filter lets a search skip a piece that lacks the searched word. For every three consecutive bytes of a line, in
    lower case and with 0 for every digit, the bit at their hash is set. A piece can contain a word only if all bits of
    the word are set; the page's script checks this (`mayHold`).
    """

    def __init__(self) -> None:
        self._lines: set[bytes] = set()
        self._bytes = 0

    def take(self, text: str) -> None:
        """Add a line as the page displays it."""
        if self._bytes > MAX_BYTES:
            return
        line = text.lower().encode("utf-8").translate(_ZEROS)
        if line not in self._lines:
            self._lines.add(line)
            self._bytes += len(line)

    def filter(self) -> str:
        """Return the filter in base64; empty if the piece is too large for one."""
        if self._bytes > MAX_BYTES:
            return ""
        threes: set[tuple[int, int, int]] = set()
        for line in self._lines:
            threes.update(zip(line, line[1:], line[2:], strict=False))
        bits = bytearray(BITS // 8)
        for first, second, third in threes:
            place = (first << 10 ^ second << 5 ^ third) % BITS
            bits[place >> 3] |= 1 << (place & 7)
        return base64.b64encode(bits).decode()
