"""Rows that are whole objects: JSON lines, and the dictionaries that Python prints.

A row is read from its opening brace to the matching one, so that it cannot have lost its end. Names of metrics become
columns by `metric_names.py`. Rows of one step are one row. Values of evaluations stand apart.
"""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import polars as pl

from tasks.records.json_numbers import MAX_INT
from tasks.scrape.dialects.dialect import EventCollector
from tasks.scrape.dialects.metric_names import OTHER_CLOCKS, STEPS, WALL, column_of, evaluation_key
from tasks.scrape.table.row_grammar import Field, Row
from tasks.scrape.table.step_table import StepTable, arrange_columns, frame_of

WALL_COLUMN = "wall_s"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of some pairs. Raises ValueError for a key that occurs twice, which shows damage."""
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object at the beginning of a text; None if it is damaged or no object."""
    try:
        found, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def object_at(line: bytes, position: int) -> tuple[dict[str, Any], int] | None:
    """Return (JSON object, position after it) at a position; None if it is damaged or no object."""
    try:
        _, end = _DECODER.raw_decode(line[position:].decode("latin-1"))  # a character is a byte
    except (ValueError, RecursionError):
        return None
    values = read_object(line[position : position + end].decode("utf-8", "replace"))
    return None if values is None else (values, position + end)


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield (name, value) of a nested object; names of inner values follow those of their object after a slash."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def number_of(value: Any) -> float | int | None:
    """Return a number, also from its text (`"1.5"`, `"nan"`); None for other values."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, float) or abs(value) <= MAX_INT else float(value)


def step_of(values: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return (name, number) of an object's step; None without one."""
    for name in STEPS:
        step = number_of(values.get(name))
        if step is not None and math.isfinite(step) and step == int(step) and abs(step) <= MAX_INT:
            return name, int(step)
    return None


def row_of(values: Mapping[str, Any], step: int, begin: int, end: int) -> Row | None:
    """Return the row of an object's numbers; None if it has none. A name that occurs twice has its first value."""
    columns: dict[str, tuple[str, float | int]] = {}
    for name, value in flatten(values):
        number = number_of(value)
        if number is None or name in STEPS or name in OTHER_CLOCKS:
            continue
        column = WALL_COLUMN if name in WALL else column_of(name) or name
        columns.setdefault(column, (name, float(number)))
    if not columns.keys() - {WALL_COLUMN}:
        return None
    fields = tuple(Field(column, value, begin, end, ("word", 0), name) for column, (name, value) in columns.items())
    first = Field("step", step, begin, end, ("word", 0), "step")
    return Row(step, (first, *fields), begin, end, whole=True)


class ObjectCollector(EventCollector):
    """Merges rows of one step, and sets evaluations apart. Steps without seconds get them from the rows' wall times."""

    def reading_fields(self, steps: pl.DataFrame, table: StepTable) -> dict[str, Any]:
        """Return the fields of the `RunReading`."""
        rows = _merge(self.number_rows(steps.to_dicts()))
        kept = []
        for row in rows:
            tested = {key: name for name in row if (key := evaluation_key(name)) and row[name] is not None}
            if tested:
                values = {key: row[name] for key, name in tested.items()}
                place = {key: row[key] for key in ("time", "line", "offset")}
                self.evals.append({"step": row["step"], **values, **place})
            rest = {key: value for key, value in row.items() if evaluation_key(key) is None}
            if any(value is not None for key, value in rest.items() if key not in _PLACES):
                kept.append(rest)
        if kept and all(row.get("seconds") is None for row in kept):
            _add_seconds(kept)
        for row in kept:
            wall = row.pop(WALL_COLUMN, None)
            row["time"] = row["time"] or (None if wall is None else _iso(wall))
        frame = (
            arrange_columns(frame_of(kept)) if kept else arrange_columns(steps.head(0).drop(WALL_COLUMN, strict=False))
        )
        table.forms.forget_known(lambda key: evaluation_key(key) is not None or key in (*WALL, *STEPS))
        return super().reading_fields(frame, table)

    def number_rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows with their steps; for dialects that print none."""
        return rows


_PLACES = ("step", WALL_COLUMN, "time", "line", "offset")


def _merge(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; rows of one step that follow each other are one, with the last value of each column."""
    merged: list[dict[str, Any]] = []
    for row in rows:
        known = {key: value for key, value in row.items() if value is not None}
        if merged and merged[-1]["step"] == row["step"]:
            place = {key: merged[-1][key] for key in ("line", "offset")}
            merged[-1] |= known | place
        else:
            merged.append(dict.fromkeys(row) | known)
    return merged


def _add_seconds(rows: list[dict[str, Any]]) -> None:
    """Set the seconds of rows from the wall times of trained steps; times that several rows share show nothing."""
    trained = [row for row in rows if row.get(WALL_COLUMN) is not None and row.get("loss") is not None]
    pairs = list(pairwise(trained))
    if not pairs or any(after[WALL_COLUMN] <= before[WALL_COLUMN] for before, after in pairs):
        return
    for before, after in pairs:
        if after["step"] > before["step"]:
            after["seconds"] = (after[WALL_COLUMN] - before[WALL_COLUMN]) / (after["step"] - before["step"])


def _iso(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None
