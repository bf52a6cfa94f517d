"""Removes colour codes from a stream of text, and turns carriage returns and zero bytes into line breaks."""

import re
from collections.abc import Callable, Iterable, Iterator

# CSI sequences, OSC strings up to their end, and the two-byte escapes (ECMA-48)
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_])")
LONGEST = 256  # most bytes of an escape sequence
# (name, byte to search first, pattern, replacement). Zero bytes are holes between texts that were written separately.
# A carriage return before a line break is kept.
_NOISE = (
    ("zero bytes", b"\0", re.compile(rb"\0+"), b"\n"),
    ("colour codes", b"\x1b", _ESCAPE, b""),
    ("carriage returns", b"\r", re.compile(rb"\r(?!\n)"), b"\n"),
)


class Cleaner:
    """Cleans a text that arrives in pieces; calls `note` with the name of each kind of noise."""

    def __init__(self, note: Callable[[str], None] = lambda _: None) -> None:
        self._note, self._rest = note, b""

    def feed(self, piece: bytes, *, last: bool = False) -> bytes:
        data = self._rest + piece
        keep = len(data) if last else _certain(data)
        self._rest = re.sub(rb"\0+", b"\0", data[keep:])  # bounds memory
        data = data[:keep]
        for name, hint, pattern, instead in _NOISE:
            if hint in data:
                data, found = pattern.subn(instead, data)
                if found:
                    self._note(name)
        return data


def clean(chunks: Iterable[bytes], note: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the text without the noise in _NOISE; calls `note` with the name of each kind that it contains."""
    cleaner = Cleaner(note)
    for chunk in chunks:
        yield cleaner.feed(chunk)
    yield cleaner.feed(b"", last=True)


def _certain(data: bytes) -> int:
    """Return the length without a final escape sequence, carriage return or zero bytes that may go on in later data."""
    escape = data.rfind(b"\x1b", max(0, len(data) - LONGEST))
    if escape >= 0 and not _ESCAPE.match(data, escape):
        return escape
    end = len(data.rstrip(b"\0"))
    return end - data.endswith(b"\r", 0, end)
