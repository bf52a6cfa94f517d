"""Turns arrays into NumPy arrays of their bits, into digests and into a few numbers, and bits back into arrays."""

import hashlib
from typing import Any

import jax
import numpy as np

DIGITS = 16  # of a digest, in hex
_OWN_TYPES = {1: np.uint8, 2: np.uint16}  # NumPy's files know no bfloat16 and no float8


def is_key(array: Any) -> bool:
    """Whether an array holds typed keys of random numbers."""
    kind = getattr(array, "dtype", None)
    return kind is not None and jax.dtypes.issubdtype(kind, jax.dtypes.prng_key)


def is_whole(array: Any) -> bool:
    """Whether this process holds all of an array."""
    return bool(getattr(array, "is_fully_addressable", True))


def to_host(array: Any) -> Any:
    """An array as NumPy's; of typed keys their numbers."""
    return np.asarray(jax.random.key_data(array) if is_key(array) else array)


def to_bits(array: Any) -> Any:
    """An array as NumPy's, with a type that its files can hold."""
    values = to_host(array)
    return values.view(_OWN_TYPES[values.dtype.itemsize]) if values.dtype.kind == "V" else values


def from_bits(bits: Any, like: Any) -> Any:
    """The array whose bits these are, of the type and in the place of `like`."""
    values = bits.view(like.dtype) if np.dtype(like.dtype).kind == "V" else bits.astype(like.dtype)
    return jax.device_put(values, like.sharding) if isinstance(like, jax.Array) else values


def digest(values: Any) -> str:
    """Of the bits of a NumPy array."""
    return hashlib.sha256(np.ascontiguousarray(values).data.cast("B") if values.size else b"").hexdigest()[:DIGITS]


def measure(array: Any) -> list[Any]:
    """Norm, mean, largest magnitude, how many are not finite, and the digest of the bits."""
    values = to_host(array)
    bits = digest(values.view(_OWN_TYPES[values.dtype.itemsize]) if values.dtype.kind == "V" else values)
    if values.size == 0 or values.dtype == bool or is_key(array):
        return [0.0, 0.0, 0.0, 0, bits]
    with np.errstate(all="ignore"):
        numbers = np.abs(values) if values.dtype.kind == "c" else values
        numbers = numbers.astype(np.float64)
        broken = int(numbers.size - np.count_nonzero(np.isfinite(numbers)))
        norm = float(np.sqrt(np.dot(numbers.ravel(), numbers.ravel())))
        return [norm, float(numbers.mean()), float(np.abs(numbers).max()), broken, bits]
