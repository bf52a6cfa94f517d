"""Collects the memory rows of Megatron's ranks as columns: a log may print one per rank behind every row."""

from array import array
from collections.abc import Mapping

import numpy as np
import polars as pl

from tasks.records import RANK_MEMORY_SCHEMA

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
