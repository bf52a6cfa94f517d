"""Measures the differences between the values of paired arrays of two checkpoints, with few chunks in memory."""

import ctypes
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore as ts
from etils import epath
from numpy.typing import NDArray

from tasks.records.compared_checkpoints import ValueDifference
from tasks.verify.array_index import ArraySpec
from tasks.verify.values import array_spec, bytes_per_chunk

_BUDGET = 48 << 20  # limit of bytes of decoded chunks in memory, of both sides; a larger pair is read alone
_WORKERS = 4
_PIECE = 1 << 15  # elements compared at a time; they fit the CPU's cache
_M_ARENA_MAX, _M_MMAP_MAX, _M_TRIM_THRESHOLD = -8, -4, -1  # options of mallopt(3)

type Box = tuple[slice, ...]


@dataclass(frozen=True)
class CheckpointSide:
    """Opens the arrays of one checkpoint."""

    folder: epath.Path
    context: ts.Context

    def open(self, spec: ArraySpec) -> Any:
        """Return the array as a TensorStore; its values have not been read."""
        return ts.open(array_spec(self.folder, spec), open=True, context=self.context).result()


@dataclass(frozen=True)
class Job:
    """A comparison of the array `spec` with another one, or with the arrays of its layers along `layer_axis`."""

    ours: CheckpointSide
    spec: ArraySpec
    theirs: CheckpointSide
    others: tuple[ArraySpec, ...]
    layer_axis: int | None


class UnreadableError(ValueError):
    """An array of a job cannot be opened, or a chunk not read; the reason is the exception's `__cause__`."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.spec.name} cannot be read")
        self.job = job


def compare_arrays(jobs: Sequence[Job], on_bytes: Callable[[int], None] | None = None) -> list[ValueDifference]:
    """Return the difference of each job's arrays, in the order of the jobs.

    on_bytes: called by other threads with twice the bytes of each compared part of `Job.spec`. Raises
    UnreadableError for an array or a chunk that cannot be read.
    """
    totals = [ValueDifference(values=0) for _ in jobs]
    running: deque[tuple[int, int, Future[ValueDifference]]] = deque()
    held = 0

    def take() -> int:
        place, size, future = running.popleft()
        with _naming(jobs[place]):
            totals[place] = _add(totals[place], future.result())
        return size

    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="difference") as pool:
        for place, job in enumerate(jobs):
            with _naming(job):
                size = max(map(bytes_per_chunk, (job.spec, *job.others))) + job.others[0].decoded_bytes
                left, rights = job.ours.open(job.spec), [job.theirs.open(other) for other in job.others]
            for box in job.spec.boxes():
                while running and (held + size > _BUDGET or len(running) > 2 * _WORKERS):
                    held -= take()
                running.append((place, size, pool.submit(_read_and_compare, left, rights, box, job, on_bytes)))
                held += size
        while running:
            held -= take()
    return totals


@contextmanager
def reusing_memory() -> Iterator[None]:
    """Make glibc's malloc reuse memory while the block runs; no effect with other C libraries.

    By default, malloc returns large blocks to the system and gets them back zeroed, which takes as long as decoding a
    chunk."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield
        return
    for switch, value in ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1)):
        mallopt(switch, value)
    try:
        yield
    finally:
        for switch, value in ((_M_ARENA_MAX, 0), (_M_MMAP_MAX, 65536), (_M_TRIM_THRESHOLD, 128 << 10)):  # defaults
            mallopt(switch, value)
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _naming(job: Job) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, KeyError, NotImplementedError) as error:
        raise UnreadableError(job) from error


def _read_and_compare(
    left: Any, rights: list[Any], box: Box, job: Job, on_bytes: Callable[[int], None] | None
) -> ValueDifference:
    ours = _begin_reading(left, box)
    parts = list(_parts(rights, box, job.layer_axis))
    following = _begin_reading(*parts[0][:2])  # both sides are read at the same time
    values, total = np.asarray(ours.result()), ValueDifference(values=0)
    for number, (_, _, mine) in enumerate(parts, 1):
        theirs = np.asarray(following.result())
        if number < len(parts):
            following = _begin_reading(*parts[number][:2])
        total = _add(total, _compare(values[mine] if mine else values, theirs, box, mine))
    if on_bytes:
        on_bytes(2 * values.nbytes)
    return total


def _parts(rights: list[Any], box: Box, layer_axis: int | None) -> Iterator[tuple[Any, Box, tuple[Any, ...]]]:
    """Yield (the other side's array, the box in it, the index of this part in our values) for each array in `box`."""
    if layer_axis is None:
        yield rights[0], box, ()
        return
    layers = box[layer_axis]
    theirs = box[:layer_axis] + box[layer_axis + 1 :]
    for layer in range(layers.start, layers.stop):
        mine = (*(slice(None),) * layer_axis, layer - layers.start)
        yield rights[layer], theirs, mine


def _begin_reading(store: Any, box: Box) -> Any:
    return (store[box] if box else store).read()


def _compare(ours: NDArray[Any], theirs: NDArray[Any], box: Box, mine: tuple[Any, ...]) -> ValueDifference:
    left, right, size = ours.reshape(-1), theirs.reshape(-1), int(ours.size)
    same_type = left.dtype == right.dtype
    left_bits, right_bits = (_bits(left), _bits(right)) if same_type else (_wide(left), _wide(right))
    differing = not_finite = 0
    lost = (0, 0)
    squares, largest, place = 0.0, 0.0, 0
    for begin in range(0, size, _PIECE):
        piece = slice(begin, begin + _PIECE)
        count = int(np.count_nonzero(left_bits[piece] != right_bits[piece]))
        if not count:
            continue
        differing += count
        square, peak, where, odd, only_here = _measure(left[piece], right[piece])
        not_finite += odd
        lost = (lost[0] + only_here[0], lost[1] + only_here[1])
        squares += square
        if peak > largest:
            largest, place = peak, begin + where
    where_ = [int(i) for i in np.unravel_index(place, ours.shape)] if differing and ours.shape else []
    if mine and where_:  # insert the layer's index at the layer axis
        where_.insert(len(mine) - 1, mine[-1])
    first = tuple(i + part.start for i, part in zip(where_, box, strict=False))
    return ValueDifference(
        values=size,
        differing=differing,
        norm=math.sqrt(squares),
        largest=largest,
        where=first,
        not_finite=not_finite,
        lost=lost,
    )


def _measure(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float, int, int, tuple[int, int]]:
    """Return (sum of squared differences, largest absolute difference, its index, `not_finite`, `lost`) of one piece.

    `not_finite` and `lost` are as in `ValueDifference`. Floats of up to 32 bits are subtracted in float32; other types,
    and pieces with a difference that is not finite, in float64.
    """
    narrow = all(side.dtype.itemsize <= 4 and side.dtype.name.startswith(("float", "bfloat")) for side in (a, b))
    with np.errstate(invalid="ignore", over="ignore"):
        dtype = np.float32 if narrow else np.float64
        apart: NDArray[Any] = a.astype(dtype, copy=False) - b.astype(dtype, copy=False)
        wide = _wide(apart)
        square = float(np.einsum("i,i->", wide, wide))  # not BLAS, whose threads would slow this pool's
        not_finite, lost = 0, (0, 0)
        if not math.isfinite(square):  # NaN or infinities; equal bits are no difference
            left, right = _wide(a), _wide(b)
            apart = left - right
            finite = np.isfinite(left), np.isfinite(right)
            lost = int(np.count_nonzero(finite[1] & ~finite[0])), int(np.count_nonzero(finite[0] & ~finite[1]))
            unequal = _bits(a) != _bits(b) if a.dtype == b.dtype else np.ones(a.shape, bool)
            unmeasured = ~np.isfinite(apart) & unequal
            not_finite = int(np.count_nonzero(unmeasured))
            apart[unmeasured | ~unequal] = 0.0
            square = float(np.einsum("i,i->", apart, apart))
    np.abs(apart, out=apart)
    where = int(apart.argmax())
    return square, float(apart[where]), where, not_finite, lost


def _add(total: ValueDifference, part: ValueDifference) -> ValueDifference:
    larger = part if part.differing and (not total.differing or part.largest > total.largest) else total
    return ValueDifference(
        values=total.values + part.values,
        differing=total.differing + part.differing,
        norm=math.hypot(total.norm, part.norm),
        largest=larger.largest,
        where=larger.where,
        not_finite=total.not_finite + part.not_finite,
        lost=(total.lost[0] + part.lost[0], total.lost[1] + part.lost[1]),
    )


def _bits(values: NDArray[Any]) -> NDArray[Any]:
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.itemsize in (1, 2, 4, 8) else values


def _wide(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64, copy=False)
