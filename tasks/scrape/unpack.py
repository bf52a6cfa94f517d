"""Unpacks gzip and zstd streams chunk by chunk; what a cut file still holds is read."""

import zlib
from collections.abc import Iterable, Iterator

import zstandard

from tasks.scrape.errors import LogFormatError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
PIECE = 64 << 10  # logs shrink to a tenth, repetition to a thousandth: this bounds what one piece can become


def gunzip(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The text of a gzip file, of all its members. Raises LogFormatError if it is damaged."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        for piece in _pieces(chunks):
            data = piece
            while data:
                if unpacker.eof:
                    if not data.startswith(GZIP):  # padding behind the last member
                        return
                    unpacker = zlib.decompressobj(wbits=31)
                text = unpacker.decompress(data)
                if text:
                    yield text
                data = unpacker.unused_data
    except zlib.error as error:
        raise LogFormatError(f"{name}: is a damaged gzip file: {error}; copy it again") from error


def unzstd(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The text of a zstd file, of all its frames. Raises LogFormatError if it is damaged."""
    unpacker = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    try:
        for piece in _pieces(chunks):
            if text := unpacker.decompress(piece):
                yield text
    except zstandard.ZstdError as error:
        raise LogFormatError(f"{name}: is a damaged zstd file: {error}; copy it again") from error


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for begin in range(0, len(chunk), PIECE):
            yield chunk[begin : begin + PIECE]
