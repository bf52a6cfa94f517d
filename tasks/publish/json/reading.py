"""Turns a LogReading into the JSON object that `maxview scrape --format json` prints."""

import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import polars.selectors as cs

from tasks.records import LogReading, RunReading, number_to_json

# the keys of a run that come first, in this order; other fields of RunReading follow
_KEYS = (
    "name", "exit_code", "started", "ended", "error", "steps", "evals", "environment", "memory", "parameters", "flops",
    "checkpoints", "stalls", "config", "ranks", "schedule", "coverage",
)  # fmt: skip
_TABLES = ("steps", "timers")
_ROWS = 20_000  # rows that are converted to text at once


def to_json(reading: LogReading) -> dict[str, Any]:
    """Return the object as dicts and lists; absent values are None, NaN and infinities "nan", "inf", "-inf"."""
    document: dict[str, Any] = json.loads("".join(json_text(reading)))
    return document


def json_text(reading: LogReading) -> Iterator[str]:
    """Yield the object's JSON text in pieces, so that the text of a large table is never completely in memory."""
    yield f'{{\n"format": {json.dumps(reading.format)},\n"runs": ['
    for number, run in enumerate(reading.runs):
        yield ",\n{" if number else "\n{"
        yield from _run_text(run)
        yield "}"
    yield f'\n],\n"page": {json.dumps(_plain(reading.page), indent=1)}\n}}\n'


def _run_text(run: RunReading) -> Iterator[str]:
    values = run.model_dump(exclude=set(_TABLES))
    keys = dict.fromkeys((*_KEYS, *(key for key in RunReading.model_fields if key in values or key in _TABLES)))
    for number, key in enumerate(keys):
        yield f"{',' if number else ''}\n{json.dumps(key)}: "
        if key in _TABLES:
            yield from _table_text(getattr(run, key))
        else:
            yield json.dumps(_plain(values[key]), indent=1)


def _table_text(table: pl.DataFrame) -> Iterator[str]:
    """Yield the text of a list of objects, one row of the table per line."""
    yield "["
    for begin in range(0, table.height, _ROWS):
        rows = table.slice(begin, _ROWS)
        yield (",\n" if begin else "\n") + ",\n".join(_row_texts(rows))
    yield "]"


def _row_texts(rows: pl.DataFrame) -> list[str]:
    """Return each row as the text of an object. polars writes null for NaN and infinity, so rows that have them in the
    same columns are written together, with these columns as text."""
    floats = rows.select(cs.float()).columns
    finite = (pl.col(name).is_finite().fill_null(value=True).cast(pl.Int8) for name in floats)
    kinds = rows.select(pl.concat_str(finite)).to_series()
    texts = [""] * rows.height
    for kind in kinds.unique():
        words = [pl.col(name).cast(pl.String).str.to_lowercase() for name, is_finite in zip(floats, kind, strict=True)
                 if is_finite == "0"]  # fmt: skip
        places = (kinds == kind).arg_true()
        lines = rows[places].with_columns(words).write_ndjson().rstrip("\n").split("\n")
        for place, text in zip(places, lines, strict=True):
            texts[place] = text
    return texts


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return number_to_json(value)
