"""Evaluates with NumPy the operations whose results are bit-identical in NumPy and XLA.

XLA would compile each operation for every shape. A compile takes about 25 ms of CPU time; all of them took two thirds
of an evaluation's time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

_EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "square": np.square, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_SAME = frozenset({"name", "stop_gradient", "copy", "sharding_constraint", "optimization_barrier"})
_FLOATS = ("f", "V")  # V: bfloat16 and float8


def on_host(name: str, params: dict[str, Any], values: list[Any]) -> list[Any] | None:
    """Return the operation's results; None if NumPy may compute it differently, or for random keys."""
    if name in _SAME:
        return list(values)
    if not all(isinstance(value, np.ndarray) for value in values):
        return None
    with np.errstate(all="ignore"):
        result = _compute(name, params, values)
    return None if result is None else [np.asarray(result)]


def _compute(name: str, params: dict[str, Any], values: list[Any]) -> Any:
    first: Any = values[0] if values else None
    kinds = {value.dtype.kind for value in values}
    if name in _EXACT and "c" not in kinds:
        return _EXACT[name](*values)
    if name == "div" and kinds <= {*_FLOATS}:
        return np.divide(*values)
    if name == "integer_pow" and params["y"] == 2:
        return np.square(first)
    if name == "select_n" and first is not None and first.dtype == bool and len(values) == 3:
        return np.where(first, values[2], values[1])
    if name == "convert_element_type":
        return _convert(first, np.dtype(params["new_dtype"]))
    if name == "broadcast_in_dim" and len(values) == 1 and first is not None:
        return _broadcast(first, params["shape"], params["broadcast_dimensions"])
    if name == "reshape" and params.get("dimensions") is None and len(values) == 1 and first is not None:
        return first.reshape(params["new_sizes"])
    if name == "transpose" and first is not None:
        return first.transpose(params["permutation"])
    if name == "squeeze" and first is not None:
        return first.reshape([size for n, size in enumerate(first.shape) if n not in params["dimensions"]])
    return None


def _convert(value: Any, kind: np.dtype[Any]) -> Any:
    """Convert an array; None from complex numbers, from floats to other kinds, and to float8: XLA may differ there."""
    narrow = kind.itemsize < 2 and kind.kind == "V"
    exact = value.dtype.kind in "biu" or (value.dtype.kind in _FLOATS and kind.kind in _FLOATS)
    return value.astype(kind) if exact and not narrow else None


def _broadcast(value: Any, shape: Any, dimensions: Any) -> Any:
    sizes = [1] * len(shape)
    for size, place in zip(value.shape, dimensions, strict=True):
        sizes[place] = size
    return np.broadcast_to(value.reshape(sizes), shape)
