"""Unpacks gzip and zstd streams chunk by chunk, and decodes UTF-16. A truncated file is read as far as possible."""

import codecs
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import zstandard

from tasks.scrape.window import Chunks, LogFormatError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
# byte order marks; `>` in PowerShell writes the first one
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
PIECE = 512  # packed bytes that are unpacked at once: few, because a few zstd bytes can expand to gigabytes
TEXT = 1 << 20  # minimum of bytes of a chunk of unpacked text, except the last
FREE = 256 << 20  # unpacked bytes above which LARGEST_RATIO applies
LARGEST_RATIO = 200  # largest accepted ratio of unpacked to packed bytes; logs reach 10 to 30
HEAD = 1 << 20  # number of first bytes of a text that show its wrappings


def unpack_archive(raw: Chunks, name: str) -> tuple[tuple[str, ...], Chunks]:
    """Return (names of archive formats and encoding, text).

    Raises LogFormatError, perhaps only when the text is read, if an archive is damaged or unpacks to implausibly many
    bytes.
    """
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
    """Return a text that is `chunks` passed through a function at each reading."""
    return lambda: through(chunks())


def head_of(chunks: Chunks) -> bytes:
    """Return the first HEAD bytes of a text."""
    head = b""
    for chunk in chunks():
        head += chunk[: HEAD - len(head)]
        if len(head) >= HEAD:
            break
    return head


def unpacked(chunks: Iterable[bytes], opened: Callable[[], Any], name: str, kind: str) -> Iterator[bytes]:
    """Yield the text of all members (gzip) or frames (zstd) of an archive. opened: returns a new decompressor."""
    unpacker, packed, size, held = opened(), 0, 0, b""
    pieces = (chunk[begin : begin + PIECE] for chunk in chunks for begin in range(0, len(chunk), PIECE))
    for data in pieces:
        packed += len(data)
        while data:
            if unpacker.eof:
                if not GZIP.startswith(data[: len(GZIP)]):  # padding after the last member
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
    """Yield the text of a UTF-16 file; invalid UTF-16 becomes U+FFFD."""
    yield from (text.encode("utf-8", "replace") for text in codecs.iterdecode(chunks, "utf-16", "replace"))
