"""Takes colour codes out of a stream of text, and makes line breaks of carriage returns and of zero bytes; of a log
that is still growing also the prefixes of its lines."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tasks.scrape.window import FileText, Window, windows
from tasks.scrape.wrappings.prefixes import LINE_PREFIXES

# CSI sequences, OSC strings up to their end, and the two-byte escapes (ECMA-48)
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_ZEROS = re.compile(rb"\0+")
LONGEST = 256  # an escape sequence is not longer; one that a chunk's end cuts is kept back

COLOURS = "colour codes"
RETURNS = "carriage returns"
ZEROS = "zero bytes"


def clean(chunks: Iterable[bytes], note: Callable[[str], None]) -> Iterator[bytes]:
    """The text without colour codes; `note` is told what was found. Carriage returns before line breaks stay."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk if rest else chunk
        if not _is_unclean(data):
            rest = b""
            yield data
            continue
        keep = keep_back(data)
        rest = _ZEROS.sub(b"\0", data[keep:])  # there may be more of them than memory holds
        yield _clean(data[:keep], note)
    if rest:
        yield _clean(rest, note)


@dataclass(frozen=True)
class CleanText:
    """A text without colour codes and lone carriage returns, as often as asked; `note` is told what was found."""

    text: Callable[[], Iterator[bytes]]
    note: Callable[[str], None]

    def __call__(self) -> Iterator[bytes]:
        """In chunks."""
        return self._from(0)

    def windows(self) -> Iterator[Window]:
        """As windows: those of a file are what stands in it, up to where there is something to clean."""
        if not isinstance(self.text, FileText):
            yield from windows(self())
            return
        for window in self.text.windows():
            if _is_unclean(window.data):
                rest = self._from(window.base)
                yield from windows(rest, base=window.base, line=window.line, start=window.start)
                return
            yield window

    def _from(self, begin: int) -> Iterator[bytes]:
        if isinstance(self.text, FileText):  # zero bytes become one line break: those of a hole need not be read
            return clean(self.text.without_holes(begin), self.note)
        return clean(self.text(), self.note)


def keep_back(data: bytes) -> int:
    """Up to where a piece is certain: an escape sequence, a carriage return or zero bytes at its end may go on."""
    escape = data.rfind(b"\x1b", max(0, len(data) - LONGEST))
    if escape >= 0 and not _ESCAPE.match(data, escape):
        return escape
    end = len(data.rstrip(b"\0"))
    return end - data.endswith(b"\r", 0, end)


def _is_unclean(data: bytes) -> bool:
    return b"\x1b" in data or b"\r" in data or b"\0" in data


def _clean(data: bytes, note: Callable[[str], None]) -> bytes:
    if b"\0" in data:  # no text: what stands on both sides was not written together
        data = _ZEROS.sub(b"\n", data)
        note(ZEROS)
    if b"\x1b" in data:
        data, found = _ESCAPE.subn(b"", data)
        if found:
            note(COLOURS)
    if b"\r" in data:
        data, found = _LONE_RETURN.subn(b"\n", data)
        if found:
            note(RETURNS)
    return data


def _nobody(_: str) -> None:
    """Nobody is told."""


DECIDE_WITHIN = 400  # bytes of a first line in which its prefix shows


class LiveText:
    """The text inside of a log that comes in pieces, in pieces."""

    def __init__(self) -> None:
        self._rest = b""  # may be the beginning of an escape sequence
        self._line = b""  # a line that may still get, or lose, its prefix
        self._prefix: re.Pattern[bytes] | None = None
        self._decided = False

    def feed(self, data: bytes) -> bytes:
        """What of the text is certain now."""
        data = self._rest + data
        keep = keep_back(data)
        self._rest = data[keep:]
        return self._take(_clean(data[:keep], _nobody))

    def close(self) -> bytes:
        """What is left when nothing more comes."""
        text = self._take(_clean(self._rest, _nobody))
        rest, self._rest, self._line = self._line, b"", b""
        return text + (self._prefix.sub(b"", rest) if self._prefix else rest)

    def _take(self, text: bytes) -> bytes:
        text = self._line + text
        if not self._decided and (b"\n" in text.lstrip() or len(text) > DECIDE_WITHIN):
            start = text.lstrip()
            self._prefix = next((prefix for prefix in LINE_PREFIXES if prefix.match(start)), None)
            self._decided = True
        cut = text.rfind(b"\n") + 1 if self._prefix else len(text) * self._decided
        self._line = text[cut:]
        return self._prefix.sub(b"", text[:cut]) if self._prefix else text[:cut]
