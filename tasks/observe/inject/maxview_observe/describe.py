"""Describes a step's arguments and results as JSON objects: name, role, type, sharding, digest."""

import math
from typing import Any

import jax

from . import bits
from .meaning import meanings_of


def describe_all(names: list[str], arrays: list[Any], donated: list[bool] | None = None) -> list[dict[str, Any]]:
    """Return a JSON object per array; see `ObservedArray` for its keys."""
    listed = zip(names, meanings_of(names), arrays, donated or [False] * len(names), strict=True)
    return [describe(*one) for one in listed]


def describe(name: str, place: tuple[str, str], array: Any, donated: bool) -> dict[str, Any]:
    """Return the JSON object of one array. place: its role and meaning."""
    shape, kind = tuple(getattr(array, "shape", ())), getattr(array, "dtype", type(array).__name__)
    sharding = getattr(array, "sharding", None)
    found = {
        "name": name,
        "role": place[0],
        "meaning": place[1],
        "shape": list(shape),
        "dtype": str(kind),
        "sharding": split_axes(sharding, len(shape)),
        "bytes_per_device": bytes_of(array, sharding, shape),
        "donated": donated,
    }
    if bits.is_whole(array):
        norm, mean, _, _, digest = bits.measure(array)
        numbers = {"norm": norm, "mean": mean}
        found |= {key: value for key, value in numbers.items() if math.isfinite(value)} | {"digest": digest}
    return found


def split_axes(sharding: Any, rank: int) -> str:
    """Return the mesh axes that split each dimension of an array, `-` for none, e.g. `(fsdp, -)`."""
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return ""
    spec = [*sharding.spec, *[None] * rank][:rank]
    named = [axes if isinstance(axes, tuple) else (axes,) for axes in spec]
    split = ["+".join(axis for axis in axes if axis and sharding.mesh.shape.get(axis, 1) > 1) or "-" for axes in named]
    return f"({', '.join(split)})"


def bytes_of(array: Any, sharding: Any, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array on one device; 0 if unknown."""
    try:
        part = sharding.shard_shape(shape) if sharding is not None else shape
        return math.prod(part) * int(array.dtype.itemsize)
    except (AttributeError, TypeError, ValueError):
        return 0
