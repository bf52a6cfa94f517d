"""Finds the rows of known layouts in a window by a byte that each of them has and its distance to the next one."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tasks.scrape.digits import Positions
from tasks.scrape.layout import LONGEST, Layout
from tasks.scrape.step_columns import StepColumns, merge, read_rows
from tasks.scrape.window import Window

LEAST_ROWS = 8  # fewer are read faster one by one
_BREAK = ord("\n")


@dataclass(frozen=True)
class Place:
    """Rows of a layout start `at` bytes behind a `byte` that is followed by the next one after `room` bytes."""

    layout: Layout
    byte: int
    at: int
    room: int

    @property
    def key(self) -> tuple[bytes, int, int]:
        """Equal for equal places."""
        return self.layout.signature, self.byte, self.room


def find_place(window: Window, layout: Layout, columns: StepColumns) -> Place | None:
    """Where most of a layout's rows stand, told from those of a window; None if there are too few."""
    if len(columns.record) < LEAST_ROWS:
        return None
    byte, at = _choose_byte(window, layout, columns)
    marks = _marks(window, byte)
    own = np.searchsorted(marks, columns.record - at)
    rooms = np.diff(marks)[own[own < len(marks) - 1]]
    rooms = rooms[rooms <= LONGEST]
    return Place(layout, byte, at, int(np.bincount(rooms).argmax())) if len(rooms) else None


def _choose_byte(window: Window, layout: Layout, columns: StepColumns) -> tuple[int, int]:
    """The line break before the rows, or else the byte of their beginning that is rarest in a row; and its `at`."""
    text = np.frombuffer(window.data, np.uint8)
    if (text[np.maximum(columns.record - 1, 0)] == _BREAK).mean() > 0.5:
        return _BREAK, 1
    fixed = np.flatnonzero(layout.more[: columns.start[0] - columns.record[0] + 1] == 0)
    index = min(fixed.tolist(), key=lambda index: layout.text.count(layout.text[index]))
    return layout.text[index], -index


def read_places(window: Window, places: Iterable[Place]) -> list[StepColumns]:
    """The lines of a window that stand in known places. Touches nothing else, so it can run beside other windows."""
    found: list[StepColumns] = []
    by_byte: dict[int, list[Place]] = {}
    for place in places:
        by_byte.setdefault(place.byte, []).append(place)
    taken: Positions = np.empty(0, np.int64)
    for byte, some in by_byte.items():
        marks = _marks(window, byte)
        rooms = np.minimum(np.diff(marks, append=len(window.data)), LONGEST + 1)
        counts = np.bincount(rooms, minlength=LONGEST + 2)
        free = np.ones(len(marks), np.bool_)
        for place in some:
            if counts[place.room] < LEAST_ROWS:
                continue
            chosen = np.flatnonzero((rooms == place.room) & free)
            records = marks[chosen] + place.at
            start = records + place.layout.head
            own = (start >= window.start) & (start < window.limit)
            if len(by_byte) > 1:
                own &= ~np.isin(records, taken)
            columns, used = read_rows(window, place.layout, records[own])
            if len(columns.record):
                found.append(columns)
                free[chosen[own][used]] = False
        if len(by_byte) > 1:
            taken = np.concatenate([taken, *(columns.record for columns in found)])
    return merge(found)


def _marks(window: Window, byte: int) -> Positions:
    return window.breaks if byte == _BREAK else np.flatnonzero(np.frombuffer(window.data, np.uint8) == byte)
