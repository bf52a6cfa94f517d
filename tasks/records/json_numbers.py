"""Converts NaN and infinities in table rows to JSON and back."""

from collections.abc import Iterable, Mapping
from typing import Any


def number_to_json(value: Any) -> Any:
    """Return "nan", "inf" or "-inf" for non-finite numbers; other values unchanged."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value


def number_from_json(value: Any) -> Any:
    """Return the inverse of `number_to_json`."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def rows_from_json(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table with NaN and infinities restored."""
    return [{key: number_from_json(value) for key, value in row.items()} for row in rows]
