"""Unpacks gzip and zstd streams chunk by chunk, and UTF-16; what a cut file still holds is read."""

import codecs
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import zstandard

from tasks.scrape.window import Chunks, LogFormatError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
# PowerShell's `>` writes the first; both begin with a mark that is no text in UTF-8
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
PIECE = 512  # bytes at a time: zstd makes anything of a few
TEXT = 1 << 20  # bytes of text at a time, or a little more
FREE = 256 << 20  # bytes that any archive may become
LARGEST_RATIO = 200  # of a longer text to its archive: real logs shrink to a tenth or a thirtieth
HEAD = 1 << 20  # bytes in which a wrapping shows itself


def unpack(raw: Chunks, name: str) -> tuple[tuple[str, ...], Chunks]:
    """The archives that a text is, from the outside, and its encoding; and what is in them. What is read of them raises
    LogFormatError where they are damaged, or a bomb."""
    labels: tuple[str, ...] = ()
    for magic, label, opened in (
        (GZIP, "gzip", partial(zlib.decompressobj, wbits=31)),
        (ZSTD, "zstd", partial(zstandard.ZstdDecompressor().decompressobj, read_across_frames=True)),
    ):
        if head_of(raw).startswith(magic):
            labels, raw = (*labels, label), piped(raw, partial(unpacked, opened=opened, name=name, kind=label))
    if head_of(raw).startswith(UTF16):
        labels, raw = (*labels, "UTF-16"), piped(raw, from_utf16)
    return labels, raw


def piped(chunks: Chunks, through: Callable[[Iterator[bytes]], Iterator[bytes]]) -> Chunks:
    """A text that is made of another."""
    return lambda: through(chunks())


def head_of(chunks: Chunks) -> bytes:
    head = b""
    for chunk in chunks():
        head += chunk[: HEAD - len(head)]
        if len(head) >= HEAD:
            break
    return head


def unpacked(chunks: Iterable[bytes], opened: Callable[[], Any], name: str, kind: str) -> Iterator[bytes]:
    """The text of all members or frames of an archive."""
    unpacker, packed, size, held = opened(), 0, 0, b""
    pieces = (chunk[begin : begin + PIECE] for chunk in chunks for begin in range(0, len(chunk), PIECE))
    for data in pieces:
        packed += len(data)
        while data:
            if unpacker.eof:
                if not GZIP.startswith(data[: len(GZIP)]):  # padding behind the last member
                    break
                unpacker = opened()
            try:
                text = unpacker.decompress(data)
            except (zlib.error, zstandard.ZstdError) as error:
                raise LogFormatError(f"{name}: is a damaged {kind} file: {error}; copy it again") from error
            size += len(text)
            if size > FREE and size > LARGEST_RATIO * packed:
                raise LogFormatError(
                    f"{name}: its first {packed:,} bytes unpack to more than {size:,}: no log shrinks like that; if it "
                    "is one, unpack it yourself and give the text"
                )
            held += text
            if len(held) >= TEXT:
                yield held
                held = b""
            data = unpacker.unused_data
    yield held


def from_utf16(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The text of a file that begins with a byte order mark; what is no UTF-16 in it becomes U+FFFD."""
    yield from (text.encode("utf-8", "replace") for text in codecs.iterdecode(chunks, "utf-16", "replace"))
