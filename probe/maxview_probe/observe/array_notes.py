"""Turns an array into a note of less than a kilobyte, by which arrays of different processes and files are compared.

Imports no JAX: maxview makes the same notes of a checkpoint's arrays.
"""

from typing import Any

import numpy as np

from maxview_probe.observe.digests import digest_bits, view_bits

SAMPLE = 64  # values of an array that its note has
SLICES = 128  # an axis of more elements is not a layer axis, and has no digests of its slices
_STRIDE = 0x9E3779B1  # odd, so that the sampled places are spread over the array
_NARROW = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")  # types to which a wider float may have been cast


def note_array(values: Any, *, is_whole: bool = True) -> dict[str, Any]:
    """Return the note of a NumPy array: `dtype`, `digest`, `zeros`, `norm`, `sample`, `narrow`, `turned`, `slices`.

    sample: SAMPLE values at places that depend on the number of values only. narrow: the narrower types that hold every
    value exactly. turned: the digest with the last two axes swapped. slices: axis → digest of each slice along it, for
    the first two axes. A part of an array (`is_whole`=False) has the first five.
    """
    values = np.ascontiguousarray(values)
    flat = values.reshape(-1)
    note: dict[str, Any] = {
        "dtype": values.dtype.name,
        "digest": digest_bits(view_bits(values)),
        "zeros": bool(values.size) and not flat.astype(bool).any(),
        "norm": norm_of(flat),
        "sample": sample_of(flat),
    }
    if not is_whole:
        return note
    note["narrow"] = [name for name in _NARROW if fits(flat, name)]
    if values.ndim > 1 and min(values.shape[-2:]) > 1:
        note["turned"] = digest_bits(view_bits(np.ascontiguousarray(np.swapaxes(values, -1, -2))))
    note["slices"] = {
        str(axis): [digest_bits(view_bits(np.ascontiguousarray(part))) for part in np.moveaxis(values, axis, 0)]
        for axis in range(min(values.ndim, 2))
        if values.ndim > 1 and 1 < values.shape[axis] <= SLICES
    }
    return note


def sample_of(flat: Any) -> list[float | int | str]:
    """Return up to SAMPLE values of a flat array as Python's numbers; non-finite ones are strings."""
    count = min(flat.size, SAMPLE)
    places = np.arange(flat.size) if count == flat.size else np.arange(count) * _STRIDE % flat.size
    chosen = flat[places]
    if chosen.dtype.kind in "iub":
        return [int(one) for one in chosen]
    if chosen.dtype.kind == "c":
        chosen = chosen.real
    return [one if np.isfinite(one) else repr(one) for one in map(float, chosen.astype(np.float64))]


def norm_of(flat: Any) -> float | None:
    """Return the Euclidean norm of a flat array; None if it is not finite, or of no floats."""
    if flat.dtype.kind in "iub":
        return None
    total = 0.0
    with np.errstate(all="ignore"):
        for begin in range(0, flat.size, 1 << 16):
            block = np.abs(flat[begin : begin + (1 << 16)]).astype(np.float64)
            total += float(np.einsum("i,i->", block, block))
    return float(np.sqrt(total)) if np.isfinite(total) else None


def fits(flat: Any, name: str) -> bool:
    """Return whether a wider float array survives a cast to the type `name` and back in every bit."""
    if (flat.dtype.kind != "f" and flat.dtype.name != "bfloat16") or not flat.size:
        return False
    narrow = type_of(name)
    if narrow is None or narrow.itemsize >= flat.dtype.itemsize:
        return False
    with np.errstate(all="ignore"):
        for begin in range(0, flat.size, 1 << 16):
            block = flat[begin : begin + (1 << 16)]
            if not np.array_equal(block.astype(narrow).astype(flat.dtype), block, equal_nan=True):
                return False
    return True


def type_of(name: str) -> Any | None:
    """Return NumPy's type of a name that JAX uses; None if this Python lacks it."""
    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            return None
        return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else None
