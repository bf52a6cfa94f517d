"""Reads the many step lines that look alike as columns: rows of bytes held against a layout, all at once.

Nothing is read here that differs in more than its digits from a line that the grammar in `step_line` has read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import Mask, Positions, Rows
from tasks.scrape.layout import TIME, Layout
from tasks.scrape.window import Window

ROWS = 1024  # rows at a time: what is made of them stays in the caches

type Column = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.str_]


@dataclass(frozen=True)
class StepColumns:
    """Step lines of a window with the same keys, ascending. Positions are those in the window's data."""

    keys: tuple[str, ...]
    record: Positions  # of the prefix, or of `completed` without one
    start: Positions  # of `completed`
    end: Positions  # of the last values
    line: Positions  # the line's number in the file
    step: NDArray[np.int64]
    values: dict[str, Column]
    times: Rows | None  # (rows, 20) characters; zeros where a line has no time

    @property
    def kind(self) -> tuple[tuple[str, str], ...]:
        """The keys with the kinds of their values: columns that share it are of one piece."""
        return tuple((key, values.dtype.kind) for key, values in self.values.items())


def read_rows(window: Window, layout: Layout, records: Positions) -> tuple[StepColumns, Mask]:
    """The rows that start at these positions and fit the layout, and which of the positions those are."""
    inside = (records >= 0) & (records + layout.width <= len(window.data))
    at = records[inside]
    wholes = np.empty((1 + len(layout.integers), len(at)), np.int64)
    floats = np.empty((len(layout.floats), len(at)), np.float64)
    times = np.empty((len(at), TIME.stop - TIME.start), np.uint8) if layout.timed else None
    good = np.empty(len(at), np.bool_)
    digits = np.empty((min(ROWS, len(at)), layout.width), np.uint8)
    fits = np.empty(digits.shape, np.bool_)
    for begin in range(0, len(at), ROWS):
        part = slice(begin, min(begin + ROWS, len(at)))
        rows = _rows_at(window.data, at[part], layout.width)
        some, fit = digits[: len(rows)], fits[: len(rows)]
        np.subtract(rows, layout.least, out=some)
        np.less_equal(some, layout.more, out=fit)
        good[part] = True if fit.all() else fit.all(axis=1)
        numbers = layout.reader.read(some)
        wholes[:, part] = numbers[: len(wholes)]
        # both are exact in a double, so the one division or multiplication rounds as reading the decimal does
        np.divide(numbers[len(wholes) :], layout.divisors, out=floats[:, part])
        if times is not None:
            times[part] = rows[:, TIME]
    floats *= layout.factors
    kept: slice | Mask = slice(None) if good.all() else good
    record = at[kept]
    found: dict[str, Column] = {key: np.full(len(record), value) for key, value in layout.constants.items()}
    found |= {number.key: floats[index][kept] for index, number in enumerate(layout.floats)}
    found |= {number.key: wholes[index + 1][kept] for index, number in enumerate(layout.integers)}
    columns = StepColumns(
        keys=layout.keys,
        record=record,
        start=record + layout.head,
        end=record + (layout.width - 1),
        line=window.line + np.searchsorted(window.breaks, record + layout.head),
        step=wholes[0][kept],
        values={key: found[key] for key in layout.keys},
        times=None if times is None else times[kept],
    )
    used = inside.copy()
    used[inside] = good
    return columns, used


def _rows_at(data: bytes, records: Positions, width: int) -> Rows:
    """(rows, width) bytes; a view where every row stands right behind the one before."""
    if (np.diff(records) == width).all():
        return np.ndarray((len(records), width), np.uint8, data, int(records[0]))
    # one opaque item of `width` bytes at every offset, overlapping: a view, nothing is copied until it is indexed
    items = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return items[records].view(np.uint8).reshape(len(records), width)


def merge(columns: Sequence[StepColumns]) -> list[StepColumns]:
    """The same lines with as few columns as their keys allow, in the order of the log."""
    kinds: dict[tuple[tuple[str, str], ...], list[StepColumns]] = {}
    for some in columns:
        kinds.setdefault(some.kind, []).append(some)
    return [_merge_alike(group) for group in kinds.values()]


def _merge_alike(group: list[StepColumns]) -> StepColumns:
    if len(group) == 1:
        return group[0]
    order = np.argsort(np.concatenate([some.start for some in group]), kind="stable")
    times = None
    if any(some.times is not None for some in group):
        none = [np.zeros((len(some.start), TIME.stop - TIME.start), np.uint8) for some in group]
        times = np.concatenate(
            [zeros if some.times is None else some.times for some, zeros in zip(group, none, strict=True)]
        )[order]
    return StepColumns(
        keys=group[0].keys,
        record=np.concatenate([some.record for some in group])[order],
        start=np.concatenate([some.start for some in group])[order],
        end=np.concatenate([some.end for some in group])[order],
        line=np.concatenate([some.line for some in group])[order],
        step=np.concatenate([some.step for some in group])[order],
        values={key: np.concatenate([some.values[key] for some in group])[order] for key in group[0].keys},
        times=times,
    )
