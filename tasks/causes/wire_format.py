"""Decodes protocol buffers into numbered fields, for messages whose schema no installed package contains."""

from collections import defaultdict
from collections.abc import Iterator

_VARINT, _BYTES = 0, 2
_SIZES = {1: 8, 5: 4}  # wire type → bytes, for fields of fixed size


class Message:
    """The fields of a message, by number. The encoding: https://protobuf.dev/programming-guides/encoding"""

    def __init__(self, content: bytes) -> None:
        """Decode a message. Raises ValueError if the bytes are not a valid message."""
        self._fields: dict[int, list[int | bytes]] = defaultdict(list)
        place = 0
        while place < len(content):
            key, place = _read_varint(content, place)
            number, kind = key >> 3, key & 7
            if kind not in (_VARINT, _BYTES, *_SIZES):
                raise ValueError(f"a protocol buffer with a field of kind {kind}")
            size = _SIZES.get(kind)
            if size is None:
                size, place = _read_varint(content, place)  # for a varint, this is its value
            if kind == _VARINT:
                self._fields[number].append(size)
                continue
            if len(content) < place + size:
                raise ValueError("a protocol buffer that is cut off")
            self._fields[number].append(content[place : place + size])
            place += size

    def messages(self, number: int) -> Iterator["Message"]:
        """Yield the messages in a repeated field."""
        return (Message(value) for value in self._fields[number] if isinstance(value, bytes))

    def message(self, number: int) -> "Message":
        """Return the message in a field; an empty message if the field is missing."""
        return Message(self._last_bytes(number))

    def integer(self, number: int) -> int:
        """Return an integer field; 0 if it is missing."""
        found = self._fields[number][-1:]
        return found[0] if found and isinstance(found[0], int) else 0

    def text(self, number: int) -> str:
        """Return a text field; empty if it is missing."""
        return self._last_bytes(number).decode(errors="replace")

    def _last_bytes(self, number: int) -> bytes:
        found = self._fields[number][-1:]
        return found[0] if found and isinstance(found[0], bytes) else b""


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
