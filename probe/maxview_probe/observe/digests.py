"""Digests of NumPy arrays' bits. Imports no JAX."""

import hashlib
from typing import Any

import numpy as np

DIGITS = 16  # hexadecimal digits of a digest
OWN_TYPES = {1: np.uint8, 2: np.uint16}  # item size → type for the bits of bfloat16 and float8 in NumPy's files


def view_bits(values: Any) -> Any:
    """Return a NumPy array with the same bits, of a type that NumPy's files support."""
    return values.view(OWN_TYPES[values.dtype.itemsize]) if values.dtype.kind == "V" else values


def digest_bits(values: Any) -> str:
    """Return the digest of a NumPy array's bits."""
    return hashlib.sha256(np.ascontiguousarray(values).data.cast("B") if values.size else b"").hexdigest()[:DIGITS]
