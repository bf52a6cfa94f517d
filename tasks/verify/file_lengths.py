"""Finds files of a checkpoint item that are missing, too short or too long for the item's index, without decoding them.

Sources: RFC 8878, 3.1.1 (zstd's frames and blocks), and the zarr v3 specification of the codec `sharding_indexed`.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import numpy as np
import zstandard
from etils import epath

from tasks.records.checkpoint_proof import Problem
from tasks.verify.array_index import ArraySpec, FileRange, Index, name_some
from tasks.verify.layout import OCDBT_MANIFEST

_HEAD = 18  # length of the longest zstd frame header, in bytes
_CHECKSUM = 4  # length of the checksum of a zstd frame or of a shard's index, in bytes
_RLE = 1  # type of a zstd block that is stored as one byte, whatever its length
_ABSENT = np.uint64(2**64 - 1)  # stands for offset and length of an absent chunk in a shard's index


def check_ranges(folder: epath.Path, index: Index, files: Mapping[str, int]) -> list[Problem]:
    """Return the index's problems, then one problem per file that does not fit the index.

    Such a file is missing, too short, too long or damaged. files: path below the item's `folder` → size in bytes."""
    problems = list(index.problems)
    if OCDBT_MANIFEST not in files:
        problems += _check_chunk_files(folder, index, files)
    owners = {key: spec.name for spec in index.arrays.values() for key in spec.chunk_keys()}
    users: dict[str, list[tuple[str, FileRange]]] = {}
    for key, place in [("the index itself", node) for node in index.nodes] + list(index.chunks.items()):
        if place is not None:
            users.setdefault(place.file, []).append((key, place))
    for file, used in sorted(users.items()):
        length = max(place.offset + place.length for _, place in used)
        size = files.get(file)
        if size is not None and size >= length:
            continue
        lost = {owners.get(key, key) for key, place in used if place.offset + place.length > (size or 0)}
        what = name_some(lost)
        if size is None:
            message = f"is missing; lost with it: {what}"
        elif size == 0:
            message = f"is empty; lost: {what}"
        else:
            message = f"is cut off: {size:,} of at least {length:,} bytes are there; lost: {what}"
        problems.append(Problem(check="ranges", path=file, message=message))
    return problems


def _check_chunk_files(folder: epath.Path, index: Index, files: Mapping[str, int]) -> list[Problem]:
    """Return one problem per chunk file of wrong length, or of unknown length because it is damaged or unreadable.

    Skips missing and empty files, and all files in buckets, which write objects atomically. folder: the item's
    folder, which contains the zarr files.
    """
    if "://" in str(folder):
        return []
    problems = []
    for spec in sorted(index.arrays.values(), key=lambda spec: spec.name):
        for key in spec.chunk_keys():
            if files.get(key) and (wrong := _check_file(Path(folder, key), spec, files[key])):
                problems.append(Problem(check="ranges", path=key, message=f"{wrong}; lost: {spec.name}"))
    return problems


def _check_file(path: Path, spec: ArraySpec, size: int) -> str | None:
    """Return the problem of a chunk's file; None if its length is right, or its packing or dtype is unknown."""
    try:
        with path.open("rb") as file:
            match spec.packing:
                case "shard":
                    return _check_shard(file, spec, size)
                case "zstd":
                    return _compare(size, _zstd_length(file))
                case "none":
                    return _compare(size, math.prod(spec.write_shape) * np.dtype(spec.dtype).itemsize)
                case _:
                    return None
    except zstandard.ZstdError as error:
        return f"is damaged: incomplete zstd frame ({error})"
    except TypeError:  # a dtype unknown to numpy
        return None
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"


def _compare(size: int, expected: int) -> str | None:
    if size < expected:
        return f"is cut off: {size:,} of at least {expected:,} bytes are there"
    return f"has {size - expected:,} bytes too many" if size > expected else None


def _zstd_length(file: BinaryIO) -> int:
    """Return the length of a zstd frame in bytes, from the headers of its blocks; in a cut file, a lower bound."""
    head = file.read(_HEAD)
    parameters = zstandard.get_frame_parameters(head)
    position, last = zstandard.frame_header_size(head), 0
    while not last:
        file.seek(position)
        block = file.read(3)
        if len(block) < 3:
            return position + 3
        header = int.from_bytes(block, "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        if not length and not last:  # in a damaged file of zeros, this loop would take hours
            raise zstandard.ZstdError("an empty block")
        position += 3 + (1 if kind == _RLE else length)
    return position + (_CHECKSUM if parameters.has_checksum else 0)


def _check_shard(file: BinaryIO, spec: ArraySpec, size: int) -> str | None:
    """Return the problem of the index at a shard's end: cut off, wrong checksum, chunks beyond the end; else None."""
    count = math.prod(written // read for written, read in zip(spec.write_shape, spec.read_shape, strict=True))
    length = 16 * count + _CHECKSUM
    if size < length:
        return f"is cut off: {size:,} of at least {length:,} bytes are there"
    file.seek(size - length)
    index = file.read(length)
    if int.from_bytes(index[-_CHECKSUM:], "little") != google_crc32c.value(index[:-_CHECKSUM]):
        return "is cut off or damaged: it does not end with the index of a shard"
    places = np.frombuffer(index[:-_CHECKSUM], "<u8").reshape(-1, 2)
    ends = places[(places != _ABSENT).all(axis=1)].sum(axis=1)
    if ends.max(initial=0) > size - length:
        return "is damaged: it lists chunks beyond its end"
    return None
