"""Reads the many step lines that look alike, all at once: rows of bytes are held against a layout, their digits read.

Nothing is read here that differs in more than its digits from a line that the grammar in `step_line` has read.
"""

import numpy as np

from tasks.scrape.digits import Mask, Positions, Rows
from tasks.scrape.layout import TILE, TIME, Layout
from tasks.scrape.step_columns import Column, StepColumns
from tasks.scrape.window import Window

ROWS = 2048  # rows at a time: what is made of them stays in the caches
FIRST_ROWS = 64  # of a run, of which nobody knows how long it is


def read_rows(window: Window, layout: Layout, records: Positions) -> tuple[StepColumns, Mask]:
    """The rows that start at these positions and fit the layout, and which of the positions those are."""
    inside = (records >= 0) & (records + layout.width <= len(window.data))
    at = records[inside]
    sheet = _Sheet(layout, len(at))
    good = np.empty(len(at), np.bool_)
    steady = np.diff(at) == layout.width
    for begin in range(0, len(at), ROWS):
        end = min(begin + ROWS, len(at))
        if steady[begin : end - 1].all():
            rows = _view(window.data, int(at[begin]), end - begin, layout.width)
        else:
            rows = _gather(window.data, at[begin:end], layout.width)
        good[begin:end] = sheet.read(rows, begin)
    used = inside.copy()
    used[inside] = good
    lines = window.line + np.searchsorted(window.breaks, at + layout.head)
    return sheet.columns(at, lines, good), used


def read_run(window: Window, layout: Layout, record: int, line: int) -> StepColumns:
    """The rows that fit a layout and follow one another without a gap, from a position on; `line` is its line's number.

    Rows whose `completed` is not before the window's limit are not taken.
    """
    last = min(window.limit - layout.head - 1, len(window.data) - layout.width)
    most = max(0, (last - record) // layout.width + 1)
    sheet = _Sheet(layout, most)
    count, size = 0, FIRST_ROWS
    while count < most:
        some = min(size, most - count)
        good = sheet.read(_view(window.data, record + count * layout.width, some, layout.width), count)
        if not good.all():
            count += int(np.argmin(good))
            break
        count, size = count + some, min(size * 8, ROWS)
    numbers = np.arange(count)
    lines = line + numbers * layout.text.count(b"\n")
    return sheet.columns(record + numbers * layout.width, lines, slice(None, count))


class _Sheet:
    """What is read of so many rows of a layout."""

    def __init__(self, layout: Layout, count: int) -> None:
        self._layout = layout
        self._wholes = np.empty((1 + len(layout.integers), count), np.int64)
        self._floats = np.empty((len(layout.floats), count), np.float64)
        self._times = np.empty((count, TIME.stop - TIME.start), np.uint8) if layout.timed else None

    def read(self, rows: Rows, begin: int) -> Mask:
        """Read some rows, the first of which is number `begin`; says which of them fit the layout."""
        layout, part = self._layout, slice(begin, begin + len(rows))
        good = _find_fitting(rows, layout)
        numbers = layout.reader.read(rows)
        wholes = len(self._wholes)
        self._wholes[:, part] = numbers[:wholes]
        # both are exact in a double, so the one division or multiplication rounds as reading the decimal does
        np.divide(numbers[wholes:], layout.divisors, out=self._floats[:, part])
        if self._times is not None:
            self._times[part] = rows[:, TIME]
        return good

    def columns(self, records: Positions, lines: Positions, kept: Mask | slice) -> StepColumns:
        """The rows to keep as columns; `records` and `lines` are those of all rows, or of the kept ones for a slice."""
        layout = self._layout
        if not isinstance(kept, slice):
            kept = slice(None) if kept.all() else kept
            records, lines = records[kept], lines[kept]
        found: dict[str, Column] = {key: np.full(len(records), value) for key, value in layout.constants.items()}
        for number, values, factor in zip(layout.floats, self._floats, layout.factors, strict=True):
            found[number.key] = values[kept] if factor == 1 else values[kept] * factor
        found |= {number.key: self._wholes[index + 1][kept] for index, number in enumerate(layout.integers)}
        return StepColumns(
            keys=layout.keys,
            record=records,
            start=records + layout.head,
            end=records + (layout.width - 1),
            line=lines,
            step=self._wholes[0][kept],
            values={key: found[key] for key in layout.keys},
            times=None if self._times is None else self._times[kept],
        )


def _find_fitting(rows: Rows, layout: Layout) -> Mask:
    """Which rows fit the layout. Whether all do shows in the least and the greatest byte of each column."""
    tiled = len(rows) // TILE * TILE
    tiles, rest = rows[:tiled].reshape(-1, TILE * layout.width), rows[tiled:]
    least, most = layout.bounds
    if (
        (not tiled or ((tiles.min(axis=0) >= least).all() and (tiles.max(axis=0) <= most).all()))
        and (rest >= layout.least).all()
        and (rest <= layout.most).all()
    ):
        return np.ones(len(rows), np.bool_)
    return np.asarray(((rows >= layout.least) & (rows <= layout.most)).all(axis=1))


def _view(data: bytes, begin: int, count: int, width: int) -> Rows:
    """(count, width) bytes, as they stand in the data."""
    return np.ndarray((count, width), np.uint8, data, begin)


def _gather(data: bytes, records: Positions, width: int) -> Rows:
    """(rows, width) bytes, a copy of the rows that start at these positions."""
    # one opaque item of `width` bytes at every offset, overlapping: a view, nothing is copied until it is indexed
    items = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return items[records].view(np.uint8).reshape(len(records), width)
