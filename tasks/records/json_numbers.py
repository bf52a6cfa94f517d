"""Converts NaN and infinities in table rows to JSON and back, and checks the numbers of metrics files."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import polars as pl

MAX_INT = 2**53  # integers up to here are exact as 64-bit floats


def number_to_json(value: Any) -> Any:
    """Return "nan", "inf" or "-inf" for a non-finite float; other values are returned unchanged."""
    return str(float(value)) if isinstance(value, float) and not isfinite(value) else value


def number_from_json(value: Any) -> Any:
    """Return the float for "nan", "inf" and "-inf"; other values are returned unchanged."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def rows_to_json(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the table's rows as dicts, with NaN and infinities as strings."""
    return [{key: number_to_json(value) for key, value in row.items()} for row in frame.iter_rows(named=True)]


def rows_from_json(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `rows_to_json` with NaN and infinities as floats again."""
    return [{key: number_from_json(value) for key, value in row.items()} for row in rows]


def metric_from_json(value: Any) -> int | float | None:
    """Return a number of a metrics file; None for anything else. Integers beyond 2^53 become 64-bit floats."""
    value = number_from_json(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, float) or abs(value) <= MAX_INT else float(str(value))


def step_from_json(value: Any) -> int:
    """Return a step's number, which may be written as a float. Raises ValueError if it is no integer up to 2^53."""
    step = metric_from_json(value)
    if step is None or not abs(step) <= MAX_INT or step != int(step):
        raise ValueError(f"{value!r:.40} is no step")
    return int(step)
