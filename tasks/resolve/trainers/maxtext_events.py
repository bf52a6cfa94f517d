"""Reads MaxText's TensorBoard files into a frame with the columns of maxview's metrics.jsonl.

MaxText can write these files directly to a bucket. They contain every step, as float32: losses and norms are float32
anyway, but times lose their last digits.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google_crc32c import value as crc32c

from tasks.resolve.trainers.maxtext_metrics import LOSS, make_frame, make_row

FOLDER = "tensorboard"  # in the run's folder; MaxText creates a subfolder with the run's name
FILES = "events.out.tfevents.*"
EVALUATIONS = ("eval/", "evaluation/")
_LENGTH, _CHECK = struct.Struct("<Q"), struct.Struct("<I")


def read_maxtext_events(folder: Path) -> pl.DataFrame | None:
    """Return one row per training step, ascending, the last row of a repeated step; None if there are none.

    Each start of the trainer writes a file. Rows of a later file replace earlier rows of the same steps; a file with
    step 0 replaces all earlier files. Ignores a truncated last record. Raises ValueError naming a damaged file.
    """
    rows: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.rglob(FILES), key=lambda path: path.name):  # the name contains the start time in seconds
        try:
            found = {step: make_row({**values, "step": step}) for step, values in _read_steps(path).items()}
        except (DecodeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path}: is no TensorBoard file, or is damaged: {error}") from error
        rows = found if 0 in found else rows | found
    return make_frame(rows.values())


def _read_steps(path: Path) -> dict[int, dict[str, float]]:
    # imported here because it is slow: it loads clients for all kinds of storage
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[import-untyped]

    steps: dict[int, dict[str, float]] = {}
    for record in _read_records(path):
        event = Event.FromString(record)
        scalars = {
            value.tag: value.simple_value
            for value in event.summary.value
            if value.WhichOneof("value") == "simple_value" and not value.tag.startswith(EVALUATIONS)
        }
        if scalars:
            steps.setdefault(event.step, {}).update(scalars)
    return {step: values for step, values in steps.items() if LOSS in values}


def _read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file, each stored as length, the length's CRC, bytes, the bytes' CRC."""
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
