"""Turns step lines, read one by one or as columns, into polars frames, and those into the one table of a run."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from tasks.records import STEP_SCHEMA
from tasks.scrape.digits import Rows
from tasks.scrape.iso import with_year
from tasks.scrape.step_columns import Column, StepColumns
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


def frame_of_columns(window: Window, columns: StepColumns, first_day: datetime | None) -> pl.DataFrame:
    """Columns of a window to those of the table; `time` is ISO 8601, of the year 0 if the day is unknown."""
    data: dict[str, Column] = {"step": columns.step}
    data |= {column_name(key): values for key, values in columns.values.items()}
    data |= {"line": columns.line, "offset": columns.start + window.base}
    times = columns.times
    if times is None:
        return pl.DataFrame(data)
    if times.size and times.max() >= 0x80:  # bytes that no time has, and that may be no text at all
        damaged = (times >= 0x80).any(axis=1)
        times = np.where(damaged[:, None], np.uint8(0), times)
    some = times[:, -1] != 0
    time = _text_of(times if first_day is None else with_year(times, first_day))
    if not some.all():
        time = time.set(pl.Series(~some), None)
    return pl.DataFrame({**data, "time": time})


def _text_of(rows: Rows) -> pl.Series:
    """The text of each row of characters."""
    return pl.Series("time", rows).cast(pl.List(pl.UInt8)).cast(pl.Binary).cast(pl.String)


def combine(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One frame of several, with the columns of all."""
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def with_iso_times(frame: pl.DataFrame, first_day: datetime | None) -> pl.DataFrame:
    """The same table, its times as ISO 8601: they are as the log prints them, or already of the year of another day."""
    if "time" not in frame.columns:
        return frame
    time = pl.col("time").cast(pl.String)
    printed = pl.format("{}{}{}", time.str.slice(5, 2), time.str.slice(8, 2), time.str.slice(11))
    plain = pl.when(time.str.contains("T", literal=True)).then(printed).otherwise(time)
    return frame.with_columns(time=plain).with_columns(_iso_times(first_day))


def arrange(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with the schema's columns in their order and the log's own between them."""
    missing = [pl.lit(None, kind).alias(key) for key, kind in STEP_SCHEMA.items() if key not in frame.columns]
    frame = frame.with_columns(*missing)
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
