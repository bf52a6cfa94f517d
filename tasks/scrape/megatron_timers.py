"""Collects Megatron's timers as columns, and turns them into one table: a log may print a dozen behind every row."""

from array import array

import numpy as np
import polars as pl

from tasks.records import TIMER_SCHEMA


class TimerColumns:
    """The timers that were read so far, in the order of the log: 36 bytes for each."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._which = array("i")
        self._times = {"min_ms": array("d"), "max_ms": array("d")}
        self._places = {"line": array("q"), "offset": array("q")}

    def add(self, name: str, *, low: float, high: float, line: int, offset: int) -> None:
        """One timer: its least and its greatest time over the ranks in milliseconds, and where it stands."""
        self._which.append(self._names.setdefault(name, len(self._names)))
        for column, value in zip(self._times.values(), (low, high), strict=True):
            column.append(value)
        for place, number in zip(self._places.values(), (line, offset), strict=True):
            place.append(number)

    def table(self) -> pl.DataFrame:
        """All of them."""
        names = pl.Series("timer", list(self._names), dtype=pl.String)
        columns = {key: np.frombuffer(column, column.typecode) for key, column in (self._times | self._places).items()}
        which = pl.Series(np.frombuffer(self._which, np.int32))
        return pl.DataFrame({"timer": names.gather(which), **columns}, schema=TIMER_SCHEMA)
