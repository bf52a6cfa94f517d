"""Turns a text in UTF-16, or one whose blanks a page made no-break spaces, into the UTF-8 that a trainer wrote."""

import codecs
from collections.abc import Iterable, Iterator

# PowerShell's `>` writes the first; both begin with a mark that is no text in UTF-8
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
NO_BREAK_SPACE = "\u00a0".encode()


def from_utf16(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text of a file that begins with a byte order mark; what is no UTF-16 in it becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for chunk in chunks:
        yield _encoded(decoder.decode(chunk))
    yield _encoded(decoder.decode(b"", final=True))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def has_no_breaks(head: bytes) -> bool:
    """Whether a text that begins so has more no-break spaces than blanks."""
    return NO_BREAK_SPACE in head and head.count(NO_BREAK_SPACE) > head.count(b" ")


def without_no_breaks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text with blanks in their place."""
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        rest = NO_BREAK_SPACE[:1] if data.endswith(NO_BREAK_SPACE[:1]) else b""
        yield data[: len(data) - len(rest)].replace(NO_BREAK_SPACE, b" ")
    if rest:
        yield rest
