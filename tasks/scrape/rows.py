"""Reads the many step lines that look alike, all at once: rows of bytes are held against a layout, their digits read.

Nothing is read here that differs in more than its digits from a line that the grammar in `step_line` has read.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.scrape import iso
from tasks.scrape.digits import Mask, Positions, Rows
from tasks.scrape.layout import TILE, TIME, Layout
from tasks.scrape.memory import Memory
from tasks.scrape.step_columns import Column, StepColumns
from tasks.scrape.window import Window

_COMMA = ord(",")
_BITS = 64  # of a word
ROWS = 4096  # rows at a time: what is made of them stays in the caches
FIRST_ROWS = 64  # of a run, of which nobody knows how long it is


def read_rows(
    window: Window, layouts: Sequence[Layout], records: Positions, lines: Positions
) -> tuple[list[StepColumns], Mask]:
    """The rows that start at these positions and fit one of the layouts, all of one width, and which of them those are.

    `lines`: the numbers of the lines that the rows stand on.
    """
    width = layouts[0].width
    inside = (records >= 0) & (records + width <= len(window.data))
    at = records[inside]
    free = np.ones(len(at), np.bool_)
    sheets = [_Sheet(layout, len(at)) for layout in layouts]
    steady = np.diff(at) == width
    commas = _Commas(layouts) if len(layouts) > 1 else None
    for begin in range(0, len(at), ROWS):
        end = min(begin + ROWS, len(at))
        if steady[begin : end - 1].all():
            rows = _view(window.data, int(at[begin]), end - begin, width)
        else:
            rows = _gather(window.data, at[begin:end], width)
        found = commas.find(rows) if commas else None
        for number, sheet in enumerate(sheets):
            maybe = free[begin:end]
            if commas is not None and found is not None:
                maybe = maybe & (found == commas.own[number])
            own = np.flatnonzero(maybe)
            if len(own):
                good = sheet.read(rows if len(own) == len(rows) else rows[own], begin + own)
                free[begin + own[good]] = False
    used = inside.copy()
    used[inside] = ~free
    lines = lines[inside]
    return [sheet.columns(at, lines) for sheet in sheets if sheet.count], used


def read_run(window: Window, layout: Layout, record: int, line: int, memory: Memory | None = None) -> StepColumns:
    """The rows that fit a layout and follow one another without a gap, from a position on; `line` is its line's number.

    Rows whose `completed` is not before the window's limit are not taken. `memory`: where numbers are kept.
    """
    last = min(window.limit - layout.head - 1, len(window.data) - layout.width)
    most = max(0, (last - record) // layout.width + 1)
    sheet = _Sheet(layout, most, memory)
    count, size = 0, FIRST_ROWS
    while count < most:
        some = min(size, most - count)
        rows = _view(window.data, record + count * layout.width, some, layout.width)
        good = sheet.read(rows, np.arange(count, count + some), in_a_row=True)
        count, size = sheet.count, min(size * 8, ROWS)
        if not good.all():
            break
    numbers = np.arange(count)
    lines = line + numbers * layout.text.count(b"\n")
    return sheet.columns(record + numbers * layout.width, lines)


class _Sheet:
    """What is read of up to so many rows of a layout. Numbers are kept in `memory`, of which the rest is given back."""

    def __init__(self, layout: Layout, room: int, memory: Memory | None = None) -> None:
        self.layout = layout
        self.count = 0
        self._memory = memory or Memory()
        self._columns = 1 + len(layout.integers) + len(layout.floats)
        self._words = self._memory.lend(self._columns * room * 8).view(np.int64)
        self._split(room)
        self._times = np.empty((room, iso.LENGTH), np.uint8) if layout.timed else None
        self._numbers: list[Positions] = []  # of the rows that were read

    def _split(self, room: int) -> None:
        """The whole numbers and the decimals of the rows, a row of `room` for each."""
        words = self._words[: self._columns * room].reshape(self._columns, room)
        wholes = 1 + len(self.layout.integers)
        self._wholes, self._floats = words[:wholes], words[wholes:].view(np.float64)

    def read(self, rows: Rows, numbers: Positions, *, in_a_row: bool = False) -> Mask:
        """Read those of some rows that fit the layout, or only those before the first that does not; says which fit."""
        layout = self.layout
        good = _find_fitting(rows, layout)
        if not good.all():
            fitting: Mask | slice = slice(int(np.argmin(good))) if in_a_row else good
            rows, numbers = rows[fitting], numbers[fitting]
            if not len(rows):
                return good
        part = slice(self.count, self.count + len(rows))
        self.count = part.stop
        self._numbers.append(numbers)
        digits = layout.reader.read(rows)
        wholes = len(self._wholes)
        self._wholes[:, part] = digits[:wholes]
        # both are exact in a double, so the one division or multiplication rounds as reading the decimal does
        np.divide(digits[wholes:], layout.divisors, out=self._floats[:, part])
        if self._times is not None:
            iso.write_times(self._times[part], rows, TIME)
        return good

    def columns(self, records: Positions, lines: Positions) -> StepColumns:
        """The rows that fit as columns; `records` and `lines` are those of all rows."""
        layout, count = self.layout, self.count
        if count < len(records):
            numbers = np.concatenate(self._numbers)
            records, lines = records[numbers], lines[numbers]
        self._close_up()
        found: dict[str, Column] = {key: np.full(count, value) for key, value in layout.constants.items()}
        for number, values, factor in zip(layout.floats, self._floats, layout.factors, strict=True):
            found[number.key] = values if factor == 1 else values * factor
        found |= {number.key: self._wholes[index + 1] for index, number in enumerate(layout.integers)}
        return StepColumns(
            keys=layout.keys,
            record=records,
            start=records + layout.head,
            end=records + (layout.width - 1),
            line=lines,
            step=self._wholes[0],
            values={key: found[key] for key in layout.keys},
            times=None if self._times is None else self._times[:count],
        )

    def _close_up(self) -> None:
        """Move the columns together if there were fewer rows than room."""
        count, room = self.count, self._wholes.shape[1]
        if count < room:
            for column in range(1, self._columns):
                self._words[column * count : (column + 1) * count] = self._words[column * room : column * room + count]
            self._split(count)
        self._memory.keep(self._columns * count * 8)


class _Commas:
    """Where rows of one width have commas tells most of those apart that are of one layout: `own` is that of each."""

    def __init__(self, layouts: Sequence[Layout]) -> None:
        # a column in which one layout has its comma is one of digits or of other text in the others
        columns = np.unique(np.concatenate([layout.commas for layout in layouts]))
        few = max(1, -(-len(columns) // _BITS))
        self._columns = columns[::few]
        self.own = self.find(np.stack([layout.least for layout in layouts]))

    def find(self, rows: Rows) -> NDArray[np.uint64]:
        """(rows,): a bit for each column that has a comma."""
        bits = np.zeros((len(rows), _BITS // 8), np.uint8)
        packed = np.packbits(rows[:, self._columns] == _COMMA, axis=1)
        bits[:, : packed.shape[1]] = packed
        return bits.view(np.uint64)[:, 0]


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
