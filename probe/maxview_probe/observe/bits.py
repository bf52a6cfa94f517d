"""Converts arrays to NumPy arrays of their bits and back; computes digests and statistics of arrays."""

import math
from typing import Any

import jax
import numpy as np

from maxview_probe.observe.digests import digest_bits as digest_bits
from maxview_probe.observe.digests import view_bits

_BLOCK = 1 << 16  # number of values per block of `measure`: as float64 they fit into a CPU's cache

_SMALL = 1e-6  # numbers below this share of the largest magnitude have a fingerprint of their own: masks are huge
PERTURBATION = 2.0**-50


def _draw_signs(count: int) -> Any:
    """Return `count` pseudo-random numbers of magnitude 0.5 to 1.5, equal in every version of NumPy (SplitMix64)."""
    with np.errstate(over="ignore"):
        x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        x ^= x >> np.uint64(31)
    share = (x >> np.uint64(12)).astype(np.float64) / 2**52
    return np.where(x & np.uint64(1), 1.0, -1.0) * (0.5 + share)


_DIRECTIONS = _draw_signs(2 * _BLOCK).reshape(2, _BLOCK)


def is_key(array: Any) -> bool:
    """Whether an array contains typed random keys (`jax.random.key`)."""
    kind = getattr(array, "dtype", None)
    return kind is not None and jax.numpy.issubdtype(kind, jax.dtypes.prng_key)


def is_in_process(array: Any) -> bool:
    """Whether all shards of an array are in this process."""
    return bool(getattr(array, "is_fully_addressable", True))


def to_host(array: Any) -> Any:
    """Return an array as a NumPy array. Typed keys become their data; float0 (gradients of integers) becomes False."""
    values = np.asarray(jax.random.key_data(array) if is_key(array) else array)
    return values if values.dtype.itemsize else np.zeros(values.shape, bool)


def to_bits(array: Any) -> Any:
    """Return an array as a NumPy array of a type that NumPy's files support, with the same bits."""
    return view_bits(to_host(array))


def from_bits(bits: Any, like: Any) -> Any:
    """Undo `to_bits`: return an array with the dtype and, for JAX arrays, the sharding of `like`. No typed keys."""
    values = bits.view(like.dtype) if np.dtype(like.dtype).kind == "V" else bits.astype(like.dtype)
    if not isinstance(like, jax.Array):
        return values
    # a step for several devices moves arrays without a device of their own there, and refuses any other
    return jax.device_put(values, like.sharding if like.committed else None)


def measure_array(array: Any) -> list[Any]:
    """Return [norm, mean, largest magnitude, number of non-finite values, digest of the bits] of an array.

    The four numbers are 0 for random keys, booleans and empty arrays. Complex numbers are measured by magnitude. With
    non-finite values, the largest magnitude is NaN.
    """
    values = np.ascontiguousarray(to_host(array))
    bits = digest_bits(view_bits(values))
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


def perturb_values(values: Any, turn: int) -> Any:
    """Return float64 values times (1 + PERTURBATION · r); |r| is 0.5 to 1.5, its signs are other ones in each turn."""
    begin = turn * 7919 % _BLOCK
    factors = 1 + PERTURBATION * np.roll(_DIRECTIONS[0], begin)[: min(values.size, _BLOCK)]
    return values * np.resize(factors, values.shape)


def take_fingerprint(values: Any, shadow: Any) -> list[Any]:
    """Return [norm, mean, largest magnitude, number of non-finite values, fingerprint] of float64 or complex values.

    A fingerprint has the numbers of elements and of non-finite ones; then four numbers of the values above _SMALL times
    the largest magnitude, and four of the others: norm, projections onto two fixed pseudo-random directions, norm of
    `shadow` - `values`. Non-finite values count as 0.
    """
    flat, other = (np.ascontiguousarray(one).reshape(-1).view(np.float64) for one in (values, shadow))
    finite = np.isfinite(flat)
    broken = int(flat.size - np.count_nonzero(finite))
    if broken or not np.isfinite(other).all():
        finite &= np.isfinite(other)
        flat, other = np.where(finite, flat, 0.0), np.where(finite, other, 0.0)
    largest = max(float(flat.max()), -float(flat.min())) if flat.size else 0.0
    bands, total = np.zeros((2, 4)), 0.0
    for number, begin in enumerate(range(0, flat.size, _BLOCK)):
        part = flat[begin : begin + _BLOCK]
        gap, small = other[begin : begin + _BLOCK] - part, np.abs(part) <= _SMALL * largest
        total += float(part.sum())
        chosen: Any
        for band, chosen in enumerate((~small, small) if small.any() else (True,)):
            here, apart = np.where(chosen, part, 0.0), np.where(chosen, gap, 0.0)
            projected = _DIRECTIONS[1, number % _BLOCK] * np.einsum("ki,i->k", _DIRECTIONS[:, : part.size], here)
            bands[band] += np.einsum("i,i->", here, here), *projected, np.einsum("i,i->", apart, apart)
    bands[:, [0, 3]] = np.sqrt(bands[:, [0, 3]])
    fingerprint = [flat.size, broken, *bands.ravel().tolist()]
    return [float(np.hypot(*bands[:, 0])), total / max(flat.size, 1), largest, broken, fingerprint]
