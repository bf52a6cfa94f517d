"""Rows of a table to JSON and back, with the numbers that JSON lacks."""

from collections.abc import Iterable, Mapping
from typing import Any


def number_to_json(value: Any) -> Any:
    """NaN and infinities as "nan", "inf", "-inf"; anything else as it is."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value


def number_from_json(value: Any) -> Any:
    """The inverse of `number_to_json`."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def rows_from_json(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a table, with the numbers that JSON lacks as numbers."""
    return [{key: number_from_json(value) for key, value in row.items()} for row in rows]
