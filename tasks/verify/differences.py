"""Turns a pair of arrays into how far their values lie apart, a few chunks of both at a time."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore as ts
from etils import epath
from numpy.typing import NDArray

from tasks.records import ValueDifference
from tasks.verify.index import ArraySpec
from tasks.verify.values import array_spec, boxes, decoded_bytes, itemsize

_BUDGET = 192 << 20  # bytes of decoded chunks held at once, of both sides; a single larger pair is read alone
_WORKERS = 4
_PIECE = 1 << 18  # elements that are subtracted at a time, as float64

type Box = tuple[slice, ...]


@dataclass(frozen=True)
class Side:
    """The arrays of one checkpoint, and where to read them."""

    folder: epath.Path
    context: ts.Context

    def open(self, spec: ArraySpec) -> Any:
        """The array, unread."""
        return ts.open(array_spec(self.folder, spec), open=True, context=self.context).result()


def no_cache() -> ts.Context:
    """Every chunk is wanted once."""
    return ts.Context({"cache_pool": {"total_bytes_limit": 0}, "data_copy_concurrency": {"limit": 2}})


def compare_values(
    ours: Side,
    spec: ArraySpec,
    theirs: Side,
    others: tuple[ArraySpec, ...],
    layer_axis: int | None,
    on_bytes: Callable[[int], None] | None = None,
) -> ValueDifference:
    """The difference of the array `spec` and of `others`: one of the same shape, or its layers along `layer_axis`.

    Memory: a few chunks of each, as they were written. Raises ValueError or OSError for chunks that cannot be read.
    """
    left, rights = ours.open(spec), [theirs.open(other) for other in others]
    chunk = math.prod(spec.read_shape) * itemsize(spec) + decoded_bytes(others[0])
    workers = max(1, min(_WORKERS, _BUDGET // max(chunk, 1)))

    def read(box: Box) -> list[ValueDifference]:
        found = []
        values = _read(left, box)
        for right, their_box, mine in _parts(rights, box, layer_axis):
            found.append(_compare(values[mine] if mine else values, _read(right, their_box), box, mine))
        if on_bytes:
            on_bytes(2 * values.nbytes)
        return found

    total = ValueDifference(values=0)
    with ThreadPoolExecutor(workers, thread_name_prefix="difference") as pool:
        for found in _in_order(pool, read, boxes(spec), workers):
            for part in found:
                total = _add(total, part)
    return total


def _in_order(
    pool: ThreadPoolExecutor, read: Callable[[Box], list[ValueDifference]], work: Iterator[Box], ahead: int
) -> Iterator[list[ValueDifference]]:
    """What `pool.map` gives, with only so many boxes taken ahead."""
    running = []
    for box in work:
        running.append(pool.submit(read, box))
        if len(running) > ahead:
            yield running.pop(0).result()
    for future in running:
        yield future.result()


def _parts(rights: list[Any], box: Box, layer_axis: int | None) -> Iterator[tuple[Any, Box, tuple[Any, ...]]]:
    """(array of the other side, its box, index in the values of our box) for every array that the box meets."""
    if layer_axis is None:
        yield rights[0], box, ()
        return
    layers = box[layer_axis]
    theirs = box[:layer_axis] + box[layer_axis + 1 :]
    for layer in range(layers.start, layers.stop):
        mine = (*(slice(None),) * layer_axis, layer - layers.start)
        yield rights[layer], theirs, mine


def _read(store: Any, box: Box) -> NDArray[Any]:
    return np.asarray((store[box] if box else store).read().result())


def _compare(ours: NDArray[Any], theirs: NDArray[Any], box: Box, mine: tuple[Any, ...]) -> ValueDifference:
    left, right, size = ours.reshape(-1), theirs.reshape(-1), int(ours.size)
    if left.dtype == right.dtype and np.array_equal(_bits(left), _bits(right)):
        return ValueDifference(values=size)
    differing = not_finite = 0
    squares, largest, place = 0.0, 0.0, 0
    for begin in range(0, size, _PIECE):
        a, b = left[begin : begin + _PIECE], right[begin : begin + _PIECE]
        unequal = _bits(a) != _bits(b) if a.dtype == b.dtype else _wide(a) != _wide(b)
        count = int(np.count_nonzero(unequal))
        if not count:
            continue
        differing += count
        with np.errstate(invalid="ignore"):
            apart = _wide(a) - _wide(b)
        square = float(np.dot(apart, apart))
        if not math.isfinite(square):  # those of the same bits are equal, whatever they are
            odd = ~np.isfinite(apart) & unequal
            not_finite += int(np.count_nonzero(odd))
            apart[odd | ~unequal] = 0.0
            square = float(np.dot(apart, apart))
        squares += square
        peak = max(float(apart.max()), -float(apart.min()))
        if peak > largest:
            largest, place = peak, begin + int(np.argmax(np.abs(apart)))
    where = [int(i) for i in np.unravel_index(place, ours.shape)] if ours.shape else []
    if mine:  # the layer, between the axes of one layer
        where.insert(len(mine) - 1, mine[-1])
    first = tuple(i + part.start for i, part in zip(where, box, strict=True))
    return ValueDifference(
        values=size, differing=differing, norm=math.sqrt(squares), largest=largest, where=first, not_finite=not_finite
    )


def _add(total: ValueDifference, part: ValueDifference) -> ValueDifference:
    larger = part if part.differing and (not total.differing or part.largest > total.largest) else total
    return ValueDifference(
        values=total.values + part.values,
        differing=total.differing + part.differing,
        norm=math.hypot(total.norm, part.norm),
        largest=larger.largest,
        where=larger.where,
        not_finite=total.not_finite + part.not_finite,
    )


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.itemsize in (1, 2, 4, 8) else values


def _wide(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64)
