"""Turns step lines, read one by one or as columns, into polars frames, and those into the one table of a run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from tasks.records import STEP_SCHEMA
from tasks.scrape.step_columns import StepColumns
from tasks.scrape.step_line import column_name
from tasks.scrape.window import Window


def frame_of_rows(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows to columns; a column in which any value is a word holds words."""
    columns: dict[str, list[Any]] = {key: [] for row in rows for key in row}
    for key, values in columns.items():
        values.extend(row.get(key) for row in rows)
        if any(isinstance(value, str) for value in values):
            columns[key] = [value if value is None else str(value) for value in values]
    return pl.DataFrame(columns)


def frame_of_columns(window: Window, columns: StepColumns) -> pl.DataFrame:
    """Columns of a window to the columns of the table; `time` is still as the log prints it."""
    data: dict[str, Any] = {"step": columns.step}
    data |= {column_name(key): values for key, values in columns.values.items()}
    if columns.times is None:
        data["time"] = pl.Series([None] * len(columns.start), dtype=pl.String)
    else:
        rows = np.full((len(columns.times), columns.times.shape[1] + 1), ord("\n"), np.uint8)
        rows[:, :-1] = columns.times
        data["time"] = pl.Series([rows.tobytes()[:-1].decode("ascii", "replace")]).str.split("\n").explode()
    data["line"] = window.line + np.searchsorted(window.breaks, columns.start)
    data["offset"] = window.base + columns.start
    return pl.DataFrame(data)


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One frame of several, with the columns of all."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def arrange(frame: pl.DataFrame, first_day: datetime | None) -> pl.DataFrame:
    """The table with the schema's columns in their order, the log's own between them, and times as ISO 8601."""
    missing = [pl.lit(None, kind).alias(key) for key, kind in STEP_SCHEMA.items() if key not in frame.columns]
    frame = frame.with_columns(*missing, _iso_times(first_day))
    last = ["time", "line", "offset"]
    extra = [key for key in frame.columns if key not in STEP_SCHEMA]
    return frame.select(
        *[pl.col(key).cast(STEP_SCHEMA[key]) for key in STEP_SCHEMA if key not in last],
        *extra,
        *[pl.col(key).cast(STEP_SCHEMA[key]) for key in last],
    )


def _iso_times(first_day: datetime | None) -> pl.Expr:
    """`MMDD hh:mm:ss.ffffff` to ISO 8601, in the year that is nearest to the first day (see `iso_time`)."""
    if first_day is None:
        return pl.lit(None, pl.String).alias("time")
    raw = pl.col("time").cast(pl.String)
    apart = raw.str.slice(0, 2).cast(pl.Int32, strict=False) - first_day.month
    year = first_day.year + (apart < -6).cast(pl.Int32) - (apart > 6).cast(pl.Int32)
    return pl.format("{}-{}-{}T{}", year, raw.str.slice(0, 2), raw.str.slice(2, 2), raw.str.slice(5)).alias("time")
