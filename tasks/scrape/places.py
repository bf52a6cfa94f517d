"""Finds the rows of known layouts in a window: runs without a gap by their width, others by a byte that each has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.scrape.digits import Positions
from tasks.scrape.layout import LONGEST, Layout
from tasks.scrape.memory import Memory
from tasks.scrape.rows import read_rows, read_run
from tasks.scrape.step_columns import StepColumns, merge
from tasks.scrape.window import Window

LEAST_ROWS = 8  # with which a layout is worth to be remembered
WORTH_ROWS = 16  # of one width in a window; fewer are read faster whatever their widths
RUN_TRIES = 8  # layouts that are tried where a run may begin
SHORT_RUN = 200  # rows: shorter runs cost more than they save
MISSES = 4  # after so many short runs, or lines that belong to none, no more runs are looked for
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
    head = slice(int(columns.start[0] - columns.record[0]) + 1)
    fixed = np.flatnonzero(layout.least[head] == layout.most[head])
    index = min(fixed.tolist(), key=lambda index: layout.text.count(layout.text[index]))
    return layout.text[index], -index


def read_places(window: Window, places: Sequence[Place], memory: Memory | None = None) -> list[StepColumns]:
    """The lines of a window that stand in known places. Touches nothing but the memory that it is given."""
    found, position = _read_runs(window, [place for place in places if place.room == place.layout.width], memory)
    if places and position < window.limit:
        found += _read_marked(window, places, position)
    return merge(found)


def _read_runs(window: Window, places: Sequence[Place], memory: Memory | None) -> tuple[list[StepColumns], int]:
    """The rows of the runs with which the window begins, and where they end. Saves looking for every line break."""
    found: list[StepColumns] = []
    position, line, counted, misses = 0, window.line, 0, 0
    while misses < MISSES:
        place, record = _next_row(window, places[:RUN_TRIES], position)
        if place is None:
            following = window.data.find(b"\n", max(position, window.start))
            if not 0 <= following < window.limit:
                break
            position, misses = following + 1, misses + 1
            continue
        start = record + place.layout.head
        line += window.data.count(b"\n", counted, start)
        run = read_run(window, place.layout, record, line, memory)
        found.append(run)
        position, counted, line = int(run.end[-1]), int(run.start[-1]), int(run.line[-1])
        if position + place.layout.head >= window.limit:
            return found, window.limit
        misses = misses + 1 if len(run.record) < SHORT_RUN else 0
    return found, position


def _next_row(window: Window, places: Iterable[Place], position: int) -> tuple[Place | None, int]:
    """The first row from a position on, if it is of one of the places; its position."""
    best: tuple[Place | None, int] = None, len(window.data)
    for place in places:
        first = max(position, window.start - place.layout.head, place.at)
        record = window.data.find(place.byte, first - place.at) + place.at
        inside = first <= record < min(best[1], window.limit - place.layout.head)
        if inside and place.layout.fits(window.data, record):
            best = place, record
    return best


def _read_marked(window: Window, places: Sequence[Place], position: int) -> list[StepColumns]:
    """The rows from a position on, by the byte that marks them."""
    found: list[StepColumns] = []
    groups: dict[int, dict[tuple[int, int, int, int], list[Place]]] = {}
    for place in places:
        same = place.room, place.at, place.layout.head, place.layout.width
        groups.setdefault(place.byte, {}).setdefault(same, []).append(place)
    taken: Positions = np.empty(0, np.int64)
    for byte, some in groups.items():
        marks = _marks(window, byte)
        rooms = np.minimum(np.diff(marks, append=len(window.data)), LONGEST + 1).astype(np.int16)
        by_room = np.argsort(rooms, kind="stable")  # for so small numbers that is one pass
        ends = np.cumsum(np.bincount(rooms, minlength=LONGEST + 2))
        free = np.ones(len(marks), np.bool_)
        for (room, at, head, _), own in some.items():
            chosen = by_room[ends[room - 1] if room else 0 : ends[room]]
            if len(chosen) < WORTH_ROWS:
                continue
            chosen = chosen[free[chosen]]
            records = marks[chosen] + at
            start = records + head
            fits = (records >= position) & (start >= window.start) & (start < window.limit)
            if len(groups) > 1:
                fits &= ~np.isin(records, taken, kind="table")
            if not fits.all():
                chosen, records = chosen[fits], records[fits]
            lines = window.line + (chosen + 1 if byte == _BREAK else np.searchsorted(window.breaks, records + head))
            columns, used = read_rows(window, [place.layout for place in own], records, lines)
            found += columns
            free[chosen[used]] = False
        if len(groups) > 1:
            taken = np.concatenate([taken, *(columns.record for columns in found)])
    return found


def _marks(window: Window, byte: int) -> Positions:
    return window.breaks if byte == _BREAK else np.flatnonzero(np.frombuffer(window.data, np.uint8) == byte)
