"""Turns text in another encoding, in HTML or in Markdown, or in a console's columns, into the text that was printed."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

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


# what people, consoles and launchers put into lines: its name, what stands in it, its pattern, what takes its place,
# and how many lines must have it
_IN_LINES = (
    ("HTML line breaks", b"<br", re.compile(rb"[ \t]*<br ?/?>\r?\n?"), b"\n", 2),
    ("backticks", b"`", re.compile(rb"(?m)^[ \t]*(?:[-*>] )?`([^`\n]+)`[ \t]*(?=\r?$)"), rb"\1", 2),
    ("Ray's repeats", b"x across cluster]", re.compile(
        rb"[ \t]*(?:\x1b\[[\d;]*m)*\[repeated \d+x across cluster\](?: \(Ray dedup[^\n]*\))?(?:\x1b\[0m)*"), b"", 1),
    # of `rich.logging.RichHandler`: the file at the right end of each line
    ("rich's file column", b".py:", re.compile(
        rb"(?m)^((?:\[[\d:/. ]{5,30}\]|[ ]{10,30}) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [^\n]*?)[ \t]{2,}"
        rb"[\w.-]{1,60}\.py:\d{1,6}[ \t]*(?=\r?$)"), rb"\1", 2),
)  # fmt: skip

type Recode = Callable[[Iterator[bytes]], Iterator[bytes]]


def recodings(head: bytes) -> Iterator[tuple[str, Recode]]:
    """(what it is called, what takes it off) of all that the lines of a text hold that begins so."""
    for name, hint, pattern, instead, least in _IN_LINES:
        if hint in head and len(pattern.findall(head)) >= least:
            yield name, partial(_sub, pattern, instead)


def _sub(pattern: re.Pattern[bytes], instead: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    for lines in whole_lines(chunks):
        yield pattern.sub(instead, lines)


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text, cut behind line breaks."""
    rest = b""
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield rest + chunk[:cut]
            rest = chunk[cut:]
        else:
            rest += chunk
    if rest:
        yield rest
