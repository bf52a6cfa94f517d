"""Unpacks gzip and zstd streams chunk by chunk; what a cut file still holds is read."""

import zlib
from collections.abc import Iterable, Iterator
from typing import IO, cast

import zstandard

from tasks.scrape.errors import LogFormatError

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
# logs shrink to a tenth, repetition to a thousandth: this bounds what one piece of gzip can become
PIECE = 8 << 10
TEXT = 1 << 20  # bytes of zstd's text at a time, whose pieces can become anything

FREE = 256 << 20  # bytes that any archive may become
LARGEST_RATIO = 200  # of a longer text to its archive: real logs shrink to a tenth or a thirtieth


def _guarded(texts: Iterator[tuple[int, bytes]], name: str) -> Iterator[bytes]:
    """The texts of (bytes unpacked so far, text). Raises LogFormatError for an archive made to fill a disk."""
    size = 0
    for packed, text in texts:
        size += len(text)
        if size > FREE and size > LARGEST_RATIO * packed:
            raise LogFormatError(
                f"{name}: its first {packed:,} bytes unpack to more than {size:,}: no log shrinks like that; if it is "
                "one, unpack it yourself and give the text"
            )
        yield text


def gunzip(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The text of a gzip file, of all its members. Raises LogFormatError if it is damaged, or a bomb."""
    try:
        yield from _guarded(_gunzip(chunks), name)
    except zlib.error as error:
        raise LogFormatError(f"{name}: is a damaged gzip file: {error}; copy it again") from error


def _gunzip(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    unpacker, packed = zlib.decompressobj(wbits=31), 0
    for piece in _pieces(chunks):
        data = piece
        packed += len(piece)
        while data:
            if unpacker.eof:
                if not data.startswith(GZIP):  # padding behind the last member
                    return
                unpacker = zlib.decompressobj(wbits=31)
            text = unpacker.decompress(data)
            if text:
                yield packed, text
            data = unpacker.unused_data


def unzstd(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The text of a zstd file, of all its frames. Raises LogFormatError if it is damaged, or a bomb."""
    try:
        yield from _guarded(_unzstd(chunks), name)
    except zstandard.ZstdError as error:
        raise LogFormatError(f"{name}: is a damaged zstd file: {error}; copy it again") from error


def has_checksum(head: bytes) -> bool:
    """Whether damage to a zstd file shows in itself; `head` is how it begins. The zstd tool adds a checksum to what it
    packs, and most libraries do not."""
    try:
        return bool(zstandard.get_frame_parameters(head).has_checksum)
    except zstandard.ZstdError:  # it will be refused
        return True


def _unzstd(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    packed = _Packed(chunks)
    with zstandard.ZstdDecompressor().stream_reader(cast(IO[bytes], packed), read_across_frames=True) as reader:
        while text := reader.read(TEXT):
            yield packed.count, text


class _Packed:
    """Chunks as a file to read from, and how many bytes were taken of them."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._pieces, self.count = _pieces(chunks), 0

    def read(self, size: int) -> bytes:
        """The next piece, however many bytes were asked for; none at the end."""
        piece = next(self._pieces, b"")
        self.count += len(piece)
        return piece


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for begin in range(0, len(chunk), PIECE):
            yield chunk[begin : begin + PIECE]
