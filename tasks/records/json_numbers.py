"""Converts NaN and infinities in table rows to JSON and back."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import polars as pl


def number_to_json(value: Any) -> Any:
    """Return "nan", "inf" or "-inf" for non-finite numbers; other values unchanged."""
    return str(float(value)) if isinstance(value, float) and not isfinite(value) else value


def number_from_json(value: Any) -> Any:
    """Return the inverse of `number_to_json`."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def rows_to_json(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table with strings for NaN and infinities."""
    return [{key: number_to_json(value) for key, value in row.items()} for row in frame.iter_rows(named=True)]


def rows_from_json(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table with NaN and infinities restored."""
    return [{key: number_from_json(value) for key, value in row.items()} for row in rows]
