"""Converts NaN and infinities in table rows to strings, because JSON has no such numbers, and back."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import polars as pl


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
