"""Turns the times of many lines, as a logger prints them, into the characters of ISO 8601."""

from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from tasks.scrape.digits import Rows

_FORM = b"0000-00-00T00:00:00.000000"
LENGTH = len(_FORM)
PRINTED = len("0418 00:55:39.221671")
_PARTS = ((5, 0, 2), (8, 2, 2), (11, 5, 15))  # month, day, clock: where it belongs, where it stands, its size


def write_times(times: Rows, text: Rows, begin: int) -> None:
    """Write the times that stand at `begin` in each row of `text` into `times` (rows, 26), without their year."""
    _items(times, 0, 11)[:] = np.frombuffer(_FORM[:11], "V11")
    for place, source, size in _PARTS:
        _items(times, place, size)[:] = _items(text, begin + source, size)


def iso_times(text: Rows, begin: int) -> Rows:
    """(rows, 26): the times that stand at `begin` in each row of `text`, without their year."""
    times = np.empty((len(text), LENGTH), np.uint8)
    write_times(times, text, begin)
    return times


def with_year(times: Rows, first_day: datetime) -> Rows:
    """The times, which are changed, in the year that is nearest to the first day (see `iso_time`)."""
    _items(times, 0, 4)[:] = _year(first_day.year)
    month = (times[:, 5] & 15) * np.uint8(10) + (times[:, 6] & 15)
    before, after = month < first_day.month - 6, month > first_day.month + 6
    for year, there in ((first_day.year + 1, before), (first_day.year - 1, after)):
        if there.any():
            _items(times, 0, 4)[there] = _year(year)
    return times


def _year(year: int) -> NDArray[np.void]:
    return np.frombuffer(b"%04d" % year, "V4")


def _items(rows: Rows, begin: int, size: int) -> NDArray[np.void]:
    """(rows,) of so many bytes of each row as one item: NumPy copies those at once, and bytes one by one."""
    return rows[:, begin : begin + size].view(f"V{size}")[:, 0]
