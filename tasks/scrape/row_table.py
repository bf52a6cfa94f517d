"""Turns rows of values into the frame of step lines; says which are missing where only every n-th is printed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from tasks.records import STEP_SCHEMA

_PLACES = ("time", "line", "offset")


def frame_of(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """The rows in their order, in the columns of `STEP_SCHEMA` with the other keys before the places."""
    if not rows:
        return pl.DataFrame(schema=STEP_SCHEMA)
    other = dict.fromkeys(key for row in rows for key in row if key not in STEP_SCHEMA)
    named = [key for key in STEP_SCHEMA if key not in _PLACES]
    columns: dict[str, pl.Series] = {}
    for key in (*named, *other, *_PLACES):
        values = [row.get(key) for row in rows]
        if key not in STEP_SCHEMA and any(isinstance(value, str) for value in values):
            values = [value if value is None else str(value) for value in values]
        columns[key] = pl.Series(key, values, dtype=STEP_SCHEMA.get(key), strict=False)
    return pl.DataFrame(columns)


def usual_jump(steps: Iterable[int]) -> int | None:
    """How many steps most often lie between two rows; None if nothing came twice: what happened once is no habit."""
    forward = Counter(after - before for before, after in pairwise(steps) if after > before)
    usual = min(forward, key=lambda jump: (-forward[jump], jump), default=1)
    return usual if forward[usual] > 1 else None


def gaps_between(steps: Iterable[int], interval: int | None = None) -> tuple[tuple[int, int], ...]:
    """(first, last) missing step of every gap. `interval`: how many steps a line stands for; None: the usual jump."""
    numbers = list(steps)
    jumps = [after - before for before, after in pairwise(numbers)]
    interval = interval or usual_jump(numbers) or 1
    pairs = zip(numbers, jumps, strict=False)
    return tuple((step + interval, step + jump - 1 if interval == 1 else step + jump - interval)
                 for step, jump in pairs if jump > interval)  # fmt: skip


def rewinds_in(steps: Iterable[int]) -> int:
    """How often a step was not followed by a later one."""
    numbers = list(steps)
    return sum(after <= before for before, after in pairwise(numbers))
