"""Decodes all arrays of a checkpoint item, a few chunks at a time, to find damaged chunks, NaN and infinities."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
import tensorstore as ts
from etils import epath

from tasks.records.checkpoint_proof import Problem
from tasks.verify.array_index import ArraySpec, Index
from tasks.verify.layout import OCDBT_MANIFEST, raise_if_unreachable
from tasks.verify.ocdbt import NODES, kvstore_spec, low_load_context, shorten_message

_BUDGET = 512 << 20  # limit of bytes of decoded chunks in memory; a chunk larger than half of that is decoded alone
_WORKERS = 2  # few, because a trainer may be running


def check_values(folder: epath.Path, index: Index, on_bytes: Callable[[int], None] | None = None) -> list[Problem]:
    """Return one problem per array that cannot be decoded, or that contains NaN or infinities.

    A problem's path, below the item's folder, is the file of the array's first stored chunk, even if another chunk is
    bad; `manifest.ocdbt` if no chunk has a file. on_bytes: called with the number of decoded bytes of each chunk.
    """
    context = low_load_context()
    problems = []
    for spec in sorted(index.arrays.values(), key=lambda spec: spec.name):
        problem = _check_array(folder, index, spec, context, on_bytes)
        if problem:
            problems.append(problem)
    return problems


def bytes_per_chunk(spec: ArraySpec) -> int:
    """Return the size of a decoded chunk in bytes.

    Raises ValueError if it is above _BUDGET and above the free memory: TensorStore would abort the process.
    """
    size = math.prod(spec.read_shape) * spec.itemsize
    if size > _BUDGET and size > (free := psutil.virtual_memory().available):
        raise ValueError(f"one chunk has {size / 1e9:,.1f} GB, {free / 1e9:,.1f} GB of memory are free")
    return size


def _check_array(
    folder: epath.Path, index: Index, spec: ArraySpec, context: ts.Context, on_bytes: Callable[[int], None] | None
) -> Problem | None:
    keys = [key for key in spec.chunk_keys() if index.chunks.get(key) is not None]
    place = index.chunks[keys[0]] if keys else None
    path = place.file if place else OCDBT_MANIFEST
    try:
        chunk = bytes_per_chunk(spec)
        store = ts.open(array_spec(folder, spec), open=True, context=context).result()
        workers = max(1, min(_WORKERS, _BUDGET // max(chunk, 1)))
        bad = 0
        first: tuple[int, ...] | None = None
        with ThreadPoolExecutor(workers, thread_name_prefix="values") as pool:
            for count, where, size in pool.map(lambda box: _check_chunk(store, box), spec.boxes()):
                bad += count
                first = first or where
                if on_bytes:
                    on_bytes(size)
    except (ValueError, OSError, KeyError, NotImplementedError) as error:
        raise_if_unreachable(folder)
        return Problem(check="values", path=path, message=f"{spec.name} cannot be decoded: {shorten_message(error)}")
    if bad:
        message = (
            f"{spec.name} holds {bad:,} of {math.prod(spec.shape):,} values that are NaN or infinite, first at {first}"
        )
        return Problem(check="values", path=path, message=message)
    return None


def array_spec(folder: epath.Path, spec: ArraySpec) -> dict[str, Any]:
    """Return the TensorStore spec that opens an array of the item in `folder`."""
    base = kvstore_spec(folder)
    kvstore: Any
    if (folder / OCDBT_MANIFEST).exists():
        kvstore = {"driver": "ocdbt", "base": base, "path": f"{spec.name}/", "cache_pool": NODES}
    elif isinstance(base, str):
        kvstore = f"{base}{spec.name}/"
    else:
        kvstore = {**base, "path": f"{base['path']}{spec.name}/"}
    driver = "zarr3" if spec.zarr_format == 3 else "zarr"
    # Reading a missing chunk is an error. By default TensorStore would return zeros.
    return {"driver": driver, "kvstore": kvstore, "fill_missing_data_reads": False}


def _check_chunk(store: Any, box: tuple[slice, ...]) -> tuple[int, tuple[int, ...] | None, int]:
    """Return (number of NaN and infinite values, indices of the first one or None, number of decoded bytes)."""
    values = np.asarray((store[box] if box else store).read().result())
    if not values.dtype.name.startswith(("float", "bfloat", "complex")):
        return 0, None, values.nbytes
    finite = np.isfinite(values)
    if finite.all():
        return 0, None, values.nbytes
    where = np.unravel_index(int(np.argmin(finite)), values.shape) if values.shape else ()
    first = tuple(int(i) + part.start for i, part in zip(where, box, strict=True))
    return int(values.size - np.count_nonzero(finite)), first, values.nbytes
