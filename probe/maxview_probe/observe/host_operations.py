"""Evaluates simple operations with NumPy.

XLA would compile each operation for every shape. A compile takes about 25 ms of CPU time; all of them took two thirds
of an evaluation's time.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative,
    "square": np.square, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "max": np.maximum, "min": np.minimum, "abs": np.abs,
}  # fmt: skip
_OF_FLOATS: dict[str, Callable[..., Any]] = {
    "div": np.divide, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "expm1": np.expm1,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "is_finite": np.isfinite, "sign": np.sign,
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Any]] = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min}
_LARGE = 1 << 27  # multiplications from which XLA multiplies matrices: NumPy has one thread here
_SAME = frozenset({
    "name", "stop_gradient", "copy", "copy_p", "reduce_precision", "device_put", "optimization_barrier",
    "sharding_constraint", "mesh_cast", "reshard", "layout_constraint",
})  # fmt: skip


def on_host(name: str, params: dict[str, Any], values: Sequence[Any]) -> list[Any] | None:
    """Return the results of an operation on arrays of integers, booleans and float64; None if NumPy cannot do it."""
    if name in _SAME:
        return list(values)
    if name == "iota":
        return [_count(np.dtype(params["dtype"]), params["shape"], params["dimension"])]
    if not values or not all(isinstance(value, np.ndarray) for value in values):
        return None
    with np.errstate(all="ignore"):
        if name == "split":
            return np.split(values[0], np.cumsum(params["sizes"])[:-1], params["axis"])
        result = _compute(name, params, values)
    return None if result is None else [np.asarray(result)]


def _compute(name: str, params: dict[str, Any], values: Sequence[Any]) -> Any:
    first: Any = values[0]
    kinds = {value.dtype.kind for value in values}
    if name in _ELEMENTWISE and "c" not in kinds:
        return _ELEMENTWISE[name](*values)
    if name in _OF_FLOATS and kinds == {"f"}:
        return _OF_FLOATS[name](*values)
    if name in _REDUCTIONS and kinds <= set("iuf") and first.size:
        return _REDUCTIONS[name](first, axis=tuple(params["axes"])).astype(first.dtype)
    if name == "integer_pow" and kinds == {"f"}:
        return first ** float(params["y"])
    if name == "dot_general" and kinds == {"f"}:
        return _multiply(*values, *params["dimension_numbers"])
    if name == "select_n" and first.dtype == bool and len(values) == 3:
        return np.where(first, values[2], values[1])
    if name == "convert_element_type":
        return _convert(first, np.dtype(params["new_dtype"]))
    return _move(name, params, values)


def _move(name: str, params: dict[str, Any], values: Sequence[Any]) -> Any:
    """Return the result of an operation that computes no number."""
    first: Any = values[0]
    if name == "concatenate":
        return np.concatenate(values, axis=params["dimension"])
    if len(values) > 1:
        return None
    if name == "broadcast_in_dim":
        return _broadcast(first, params["shape"], params["broadcast_dimensions"])
    if name == "reshape" and params.get("dimensions") is None:
        return first.reshape(params["new_sizes"])
    if name == "transpose":
        return first.transpose(params["permutation"])
    if name == "squeeze":
        return first.reshape([size for n, size in enumerate(first.shape) if n not in params["dimensions"]])
    if name == "slice":
        strides = params["strides"] or [1] * first.ndim
        return first[tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]
    return None


def _convert(value: Any, kind: np.dtype[Any]) -> Any:
    """Convert an array; None from complex numbers, and from floats to integers if one is out of range."""
    if value.dtype.kind == "c":
        return None
    if value.dtype.kind == "f" and kind.kind in "iu":
        limits = np.iinfo(kind)
        if not np.all((value > limits.min - 1.0) & (value < limits.max + 1.0)):  # also NaN
            return None
    return value.astype(kind)


def _multiply(left: Any, right: Any, contracted: Any, batched: Any) -> Any:
    """Return the product of `dot_general`, with its batch axes first, then the free axes of the left and of the right.

    None if XLA's threads are quicker.
    """
    free = [
        [axis for axis in range(value.ndim) if axis not in (*summed, *batch)]
        for value, summed, batch in zip((left, right), contracted, batched, strict=True)
    ]
    batch, rows = [[left.shape[axis] for axis in axes] for axes in (batched[0], free[0])]
    columns, depth = [right.shape[axis] for axis in free[1]], [left.shape[axis] for axis in contracted[0]]
    if math.prod(batch + rows + columns + depth) > _LARGE:
        return None
    first = left.transpose([*batched[0], *free[0], *contracted[0]]).reshape([*batch, math.prod(rows), math.prod(depth)])
    second = right.transpose([*batched[1], *contracted[1], *free[1]])
    return np.matmul(first, second.reshape([*batch, math.prod(depth), math.prod(columns)])).reshape(
        [*batch, *rows, *columns]
    )


def _count(kind: np.dtype[Any], shape: Any, dimension: int) -> Any:
    """Return an array whose elements are their index along an axis."""
    return _broadcast(np.arange(shape[dimension], dtype=kind), shape, [dimension])


def _broadcast(value: Any, shape: Any, dimensions: Any) -> Any:
    sizes = [1] * len(shape)
    for size, place in zip(value.shape, dimensions, strict=True):
        sizes[place] = size
    return np.broadcast_to(value.reshape(sizes), shape)
