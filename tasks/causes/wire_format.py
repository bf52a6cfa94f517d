"""Turns the bytes of a protocol buffer into its fields, for messages whose schema no package brings along."""

from collections.abc import Iterator

_VARINT, _LONG, _BYTES, _SHORT = 0, 1, 2, 5


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of every field: integers, and the bytes of all else. Raises ValueError if it is no message.

    The encoding: https://protobuf.dev/programming-guides/encoding
    """
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        value: int | bytes
        kind = key & 7
        if kind == _VARINT:
            value, place = _read_varint(message, place)
        elif kind in (_BYTES, _LONG, _SHORT):
            size = {_LONG: 8, _SHORT: 4}.get(kind)
            if size is None:
                size, place = _read_varint(message, place)
            value = message[place : place + size]
            if len(value) < size:
                raise ValueError("a protocol buffer that is cut off")
            place += size
        else:
            raise ValueError(f"a protocol buffer with a field of kind {kind}")
        yield key >> 3, value


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(message):
            raise ValueError("a protocol buffer that is cut off")
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def integer(fields: dict[int, int | bytes], number: int) -> int:
    """An integer field; 0 where it is not written."""
    found = fields.get(number, 0)
    return found if isinstance(found, int) else 0


def text(fields: dict[int, int | bytes], number: int) -> str:
    """A text field."""
    found = fields.get(number, b"")
    return found.decode(errors="replace") if isinstance(found, bytes) else ""
