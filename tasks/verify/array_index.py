"""Describes the arrays of a checkpoint item, from their zarr metadata, and where their chunks are stored.

Sources: TensorStore's `tensorstore.ocdbt.dump` for the database, the zarr v2 and v3 specifications for the metadata.
"""

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tasks.records.checkpoint_proof import Problem

MAX_CHUNKS = 10_000_000  # limit of stored chunks of an array; metadata with more chunks is damaged or malicious
# How the bytes of a chunk's file are packed. The length of files with "unknown" packing cannot be checked.
Packing = Literal["shard", "zstd", "none", "unknown"]
_SHARD_INDEX = [{"configuration": {"endian": "little"}, "name": "bytes"}, {"name": "crc32c"}]
_SUFFIXES = {"/zarr.json": 3, "/.zarray": 2}  # end of the key of an array's metadata → zarr format


@dataclass(frozen=True)
class FileRange:
    """Bytes [offset, offset + length) of a file. `file`: path below the item."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True)
class ArraySpec:
    """The zarr metadata of an array.

    Stored chunks have the shape `write_shape`. A chunk that is a shard is decoded in parts of `read_shape`; otherwise
    the two shapes are equal.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    zarr_format: int
    write_shape: tuple[int, ...]
    read_shape: tuple[int, ...]
    separator: str
    packing: Packing = "unknown"

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element; 4 for a dtype unknown to numpy."""
        try:
            return np.dtype(self.dtype).itemsize
        except TypeError:
            return 4

    @property
    def decoded_bytes(self) -> int:
        """The number of bytes of the whole array in memory."""
        return math.prod(self.shape) * self.itemsize

    def chunk_count(self) -> int:
        """Return the number of chunks (of `write_shape`)."""
        return math.prod(map(len, self.grid(self.write_shape)))

    def grid(self, box_shape: tuple[int, ...]) -> list[range]:
        """Return the range of indices on each axis, for a grid of boxes of the shape `box_shape`."""
        return [range(math.ceil(size / side)) for size, side in zip(self.shape, box_shape, strict=True)]

    def chunk_keys(self) -> Iterator[str]:
        """Yield the key of every chunk (of `write_shape`), in C order."""
        for index in itertools.product(*self.grid(self.write_shape)):
            parts = [str(i) for i in index]
            if self.zarr_format == 3:
                yield f"{self.name}/" + self.separator.join(["c", *parts])
            else:
                yield f"{self.name}/" + (self.separator.join(parts) or "0")

    def boxes(self) -> Iterator[tuple[slice, ...]]:
        """Yield the slices of the array for each decoded part (of `read_shape`), in C order."""
        for index in itertools.product(*self.grid(self.read_shape)):
            ranges = zip(index, self.read_shape, self.shape, strict=True)
            yield tuple(slice(i * side, min((i + 1) * side, size)) for i, side, size in ranges)


@dataclass
class Index:
    """The arrays of an item, and the places of its chunks and of the index itself."""

    arrays: dict[str, ArraySpec] = field(default_factory=dict)  # by name
    chunks: dict[str, FileRange | None] = field(default_factory=dict)  # by key; None: inside a B-tree node
    nodes: list[FileRange] = field(default_factory=list)  # B-tree nodes, and array metadata outside of them
    problems: list[Problem] = field(default_factory=list)
    whole: bool = True  # False if a part of the index was unreadable, so that keys may be missing here

    def add_metadata(self, key: str, text: bytes | str, path: str) -> None:
        """Add the array with the zarr metadata `text` at `key`; invalid metadata is a problem of the file `path`."""
        try:
            spec = parse_array(key, text)
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            self.whole = False
            message = (
                f"holds metadata of the array at {key} that cannot be understood ({type(error).__name__}: {error})"
            )
            self.problems.append(Problem(check="ranges", path=path, message=message))
            return
        self.arrays[spec.name] = spec


def array_name(key: str) -> str | None:
    """Return the name of the array whose metadata has the key `key`; None for any other key."""
    for suffix in _SUFFIXES:
        if key.endswith(suffix):
            return key.removesuffix(suffix)
    return None


def parse_array(key: str, text: bytes | str) -> ArraySpec:
    """Return the array that the zarr metadata `text` describes. key: the metadata's key.

    Invalid metadata raises ValueError, LookupError, TypeError, AttributeError, OverflowError or RecursionError."""
    suffix = next(s for s in _SUFFIXES if key.endswith(s))
    name, zarr_format = key.removesuffix(suffix), _SUFFIXES[suffix]
    metadata: Mapping[str, Any] = json.loads(text)
    shape = tuple(int(size) for size in metadata["shape"])
    if zarr_format == 2:
        write_shape = read_shape = tuple(int(size) for size in metadata["chunks"])
        separator = metadata.get("dimension_separator", ".")
        dtype = metadata["dtype"]
        packing = _packing_2(metadata)
    else:
        write_shape = read_shape = tuple(int(size) for size in metadata["chunk_grid"]["configuration"]["chunk_shape"])
        codec = metadata["codecs"][0]
        if codec["name"] == "sharding_indexed":
            read_shape = tuple(int(size) for size in codec["configuration"]["chunk_shape"])
        separator = metadata["chunk_key_encoding"].get("configuration", {}).get("separator", "/")
        dtype = metadata["data_type"]
        packing = _packing_3(metadata["codecs"])
    if not len(shape) == len(write_shape) == len(read_shape) or min((*write_shape, *read_shape), default=1) < 1:
        raise ValueError(f"shape {shape} with chunks {write_shape} and {read_shape}")
    if separator not in (".", "/"):
        raise ValueError(f"the separator of chunk keys is {separator!r}, not '.' or '/'")
    array = ArraySpec(name, shape, _dtype_name(dtype), zarr_format, write_shape, read_shape, separator, packing)
    if array.chunk_count() > MAX_CHUNKS:
        raise ValueError(f"{array.chunk_count():,} chunks, more than the limit of {MAX_CHUNKS:,}")
    return array


def _packing_2(metadata: Mapping[str, Any]) -> Packing:
    compressor = metadata.get("compressor")
    if metadata.get("filters"):
        return "unknown"
    return "none" if compressor is None else "zstd" if compressor.get("id") == "zstd" else "unknown"


def _packing_3(codecs: list[Mapping[str, Any]]) -> Packing:
    names = [codec["name"] for codec in codecs]
    if names == ["sharding_indexed"]:
        shard = codecs[0]["configuration"]
        at_end = shard.get("index_location", "end") == "end"
        return "shard" if at_end and shard["index_codecs"] == _SHARD_INDEX else "unknown"
    return "none" if names == ["bytes"] else "zstd" if names == ["bytes", "zstd"] else "unknown"


def _dtype_name(dtype: object) -> str:
    """Return numpy's name of a zarr dtype: `float32` for v2's `<f4` and v3's `float32`; unknown dtypes are unchanged.

    Raises TypeError if the dtype is not a text.
    """
    if not isinstance(dtype, str) or not dtype:
        raise TypeError(f"the data type {dtype!r} is no name")
    try:
        return np.dtype(dtype).name
    except TypeError:
        return dtype  # a type unknown to numpy, such as float8_e4m3fn


def name_some(names: Iterable[str]) -> str:
    """Return the first three names in sorted order and the number of the others, if any: `a, b, c and 5 more`."""
    ordered = sorted(names)
    return ", ".join(ordered[:3]) + (f" and {len(ordered) - 3} more" if len(ordered) > 3 else "")
