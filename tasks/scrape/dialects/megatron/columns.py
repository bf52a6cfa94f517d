"""Collects the memory rows of Megatron's ranks and its timers as columns: a log may print dozens behind every row."""

from array import array
from collections.abc import Mapping

import numpy as np
import polars as pl

from tasks.records import RANK_MEMORY_SCHEMA, TIMER_SCHEMA

NAMES_MOST = 64  # of numbers; no version prints a third of these, and each is a column


class MemoryColumns:
    """The memory rows that were read so far, in the order of the log."""

    def __init__(self) -> None:
        self.ranks: set[int] = set()
        self._places = {name: array("q") for name in RANK_MEMORY_SCHEMA}
        self._values: dict[str, array[float]] = {}

    def add(self, values: Mapping[str, float], *, rank: int, iterations: int, line: int, offset: int) -> None:
        """One row: its numbers by name, whose it is, after how many iterations it was printed, and where it stands."""
        before = len(self._places["line"])
        for name in values:
            if name not in self._values and len(self._values) < NAMES_MOST:
                self._values[name] = array("d", [np.nan]) * before
        for name, column in self._values.items():
            column.append(values.get(name, np.nan))
        for place, number in zip(self._places.values(), (rank, iterations, line, offset), strict=True):
            place.append(number)
        self.ranks.add(rank)

    def table(self) -> pl.DataFrame:
        """All of them; null where a row lacks a number that others have."""
        places = [pl.Series(name, np.frombuffer(column, np.int64)) for name, column in self._places.items()]
        values = [
            pl.Series(name, np.frombuffer(column, np.float64), nan_to_null=True)
            for name, column in self._values.items()
        ]
        return pl.DataFrame([*places[:2], *values, *places[2:]])


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
