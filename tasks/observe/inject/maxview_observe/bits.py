"""Converts arrays to NumPy arrays of their bits and back; computes digests and statistics of arrays."""

import hashlib
import math
from typing import Any

import jax
import numpy as np

DIGITS = 16  # hexadecimal digits of a digest
_OWN_TYPES = {1: np.uint8, 2: np.uint16}  # item size → type for the bits of bfloat16 and float8 in NumPy's files
_BLOCK = 1 << 16  # number of values per block of `measure`: as float64 they fit into a CPU's cache


def is_key(array: Any) -> bool:
    """Whether an array contains typed random keys (`jax.random.key`)."""
    kind = getattr(array, "dtype", None)
    return kind is not None and jax.numpy.issubdtype(kind, jax.dtypes.prng_key)


def is_whole(array: Any) -> bool:
    """Whether all shards of an array are in this process."""
    return bool(getattr(array, "is_fully_addressable", True))


def to_host(array: Any) -> Any:
    """Return an array as a NumPy array. Typed keys become their data; float0 (gradients of integers) becomes False."""
    values = np.asarray(jax.random.key_data(array) if is_key(array) else array)
    return values if values.dtype.itemsize else np.zeros(values.shape, bool)


def to_bits(array: Any) -> Any:
    """Return an array as a NumPy array of a type that NumPy's files support, with the same bits."""
    values = to_host(array)
    return values.view(_OWN_TYPES[values.dtype.itemsize]) if values.dtype.kind == "V" else values


def from_bits(bits: Any, like: Any) -> Any:
    """Undo `to_bits`: return an array with the dtype and, for JAX arrays, the sharding of `like`. No typed keys."""
    values = bits.view(like.dtype) if np.dtype(like.dtype).kind == "V" else bits.astype(like.dtype)
    return jax.device_put(values, like.sharding) if isinstance(like, jax.Array) else values


def digest(values: Any) -> str:
    """Return the digest of a NumPy array's bits."""
    return hashlib.sha256(np.ascontiguousarray(values).data.cast("B") if values.size else b"").hexdigest()[:DIGITS]


def measure(array: Any) -> list[Any]:
    """Return [norm, mean, largest magnitude, number of non-finite values, digest of the bits] of an array.

    The four numbers are 0 for random keys, booleans and empty arrays. Complex numbers are measured by magnitude. With
    non-finite values, the largest magnitude is NaN.
    """
    values = np.ascontiguousarray(to_host(array))
    bits = digest(values.view(_OWN_TYPES[values.dtype.itemsize]) if values.dtype.kind == "V" else values)
    if values.size == 0 or values.dtype == bool or is_key(array):
        return [0.0, 0.0, 0.0, 0, bits]
    squares, total, largest, broken = 0.0, 0.0, 0.0, 0
    flat = values.reshape(-1)
    with np.errstate(all="ignore"):
        for begin in range(0, flat.size, _BLOCK):
            block = flat[begin : begin + _BLOCK]
            block = (np.abs(block) if block.dtype.kind == "c" else block).astype(np.float64)
            squares += float(np.einsum("i,i->", block, block))  # np.dot would start BLAS's threads
            total += float(block.sum())
            largest = max(largest, float(block.max()), -float(block.min()))
        if not math.isfinite(squares):
            numbers = flat if flat.dtype.kind == "f" else flat.astype(np.float64)
            broken = int(flat.size - np.count_nonzero(np.isfinite(numbers)))
            largest = math.nan if broken else largest
    return [math.sqrt(squares) if squares >= 0 else math.nan, total / flat.size, largest, broken, bits]
