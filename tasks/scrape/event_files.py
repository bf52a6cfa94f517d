"""Reads the scalars of TensorBoard's event files."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from google_crc32c import value as crc32c

EVENT_FILES = "events.out.tfevents.*"
_LENGTH, _CHECK = struct.Struct("<Q"), struct.Struct("<I")
# `dtype` of a tensor → the format of its bytes, and the field that may hold the number instead
_DTYPES = {1: ("<f", "float_val"), 2: ("<d", "double_val"), 3: ("<i", "int_val"), 9: ("<q", "int64_val")}


class Scalar(NamedTuple):
    """One value of an event file."""

    tag: str
    step: int
    value: float
    wall_s: float  # seconds since 1970


def read_scalars(path: Path) -> Iterator[Scalar]:
    """Yield the scalars of an event file in their order, also those that TensorFlow and CLU write as tensors.

    Ignores a truncated last record. Raises ValueError for a wrong checksum, DecodeError for other damage.
    """
    # imported here because it is slow: it loads clients for all kinds of storage
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]

    for record in read_records(path):
        event = Event.FromString(record)
        for value in event.summary.value:
            number = value.simple_value if value.WhichOneof("value") == "simple_value" else _number_of(value)
            if number is not None:
                yield Scalar(value.tag, event.step, number, event.wall_time)


def _number_of(value: Any) -> float | None:
    """Return the number of a tensor without dimensions; None for other values."""
    if value.WhichOneof("value") != "tensor" or value.tensor.tensor_shape.dim or value.tensor.dtype not in _DTYPES:
        return None
    form, field = _DTYPES[value.tensor.dtype]
    content = value.tensor.tensor_content
    if len(content) == struct.calcsize(form):
        return float(struct.unpack(form, content)[0])
    numbers = getattr(value.tensor, field)
    return float(numbers[0]) if len(numbers) == 1 else None


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file, each stored as length, the length's CRC, bytes, the bytes' CRC.

    Leaves out a truncated last record. Raises ValueError for a wrong CRC.
    """
    data, place = path.read_bytes(), 0
    while place + _LENGTH.size + _CHECK.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, place)
        _check(data[place : place + _LENGTH.size], data, place + _LENGTH.size)
        begin = place + _LENGTH.size + _CHECK.size
        place = begin + length + _CHECK.size
        if place > len(data):
            return
        record = data[begin : begin + length]
        _check(record, data, begin + length)
        yield record


def _check(text: bytes, data: bytes, place: int) -> None:
    crc = crc32c(text)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if _CHECK.unpack_from(data, place) != (masked,):
        raise ValueError(f"the bytes before byte {place} do not match the checksum there")
