"""Prints or writes the output of `maxview scrape`: the runs that were read from logs, as tables, JSON or Parquet."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl
import polars.selectors as cs
from rich.console import Console
from rich.table import Table

from tasks.records.json_numbers import number_to_json
from tasks.records.log_reading import LogReading, RunReading
from tasks.records.text import counted, escape_rich
from tasks.store.atomic import write_atomically, write_bytes_atomically

# the keys of a run that come first, in this order; other fields of RunReading follow
_KEYS = (
    "name", "exit_code", "started", "ended", "error", "steps", "evals", "environment", "memory", "parameters", "flops",
    "checkpoints", "stalls", "config", "ranks", "schedule", "coverage",
)  # fmt: skip
_TABLES = ("steps", "timers")  # the keys whose values are tables
_ROWS = 20_000  # rows of a table that are converted to text at once


def show_reading(reading: LogReading, format_: Literal["table", "json", "parquet"], output: Path | None) -> None:
    """Print the runs, or write them to `output`: as tables and lines, as JSON, or the steps of all runs as Parquet.

    Raises ValueError for Parquet without `output`.
    """
    if format_ == "json":
        if output is None:
            sys.stdout.writelines(json_text(reading))
        else:
            write_bytes_atomically(output, map(str.encode, json_text(reading)))
        return
    if format_ == "parquet":
        if output is None:
            raise ValueError("Parquet is binary: name a file with -o steps.parquet")
        frames = [run.steps.with_columns(pl.lit(run.name).alias("run")) for run in reading.runs]
        packed = io.BytesIO()
        pl.concat(frames, how="diagonal_relaxed").write_parquet(packed)
        write_bytes_atomically(output, packed.getvalue())
        return
    text = io.StringIO()
    console = Console() if output is None else Console(file=text, width=120)
    for run in reading.runs:
        _show_run(console, run)
    if output is not None:
        write_atomically(output, text.getvalue())


def _show_run(console: Console, run: RunReading) -> None:
    environment, coverage = run.environment, run.coverage
    facts = [
        run.format,
        f"JAX {environment.jax}" if environment.jax else "",
        counted(environment.num_devices, "device") if environment.num_devices else "",
        environment.device_kind or "",
    ]
    console.print(f"[bold]{escape_rich(run.name)}[/]  {escape_rich(', '.join(fact for fact in facts if fact))}")
    table = Table(box=None, pad_edge=False)
    for column in ("step", "seconds", "TFLOP/s/device", "tokens/s/device", "loss", "line"):
        table.add_column(column, justify="right")
    names = ("step", "seconds", "tflops_per_device", "tokens_per_s_per_device", "loss", "line")
    shown = run.steps if run.steps.height <= 40 else pl.concat([run.steps.head(20), run.steps.tail(20)])
    for row in shown.iter_rows(named=True):
        table.add_row(*("" if row.get(name) is None else f"{row[name]}" for name in names))
    console.print(table)
    if shown.height < run.steps.height:
        console.print(f"({run.steps.height - shown.height} steps between them not shown; --format json has all)")
    for event in run.checkpoints:
        console.print(f"checkpoint {event.step}: {escape_rich(event.summary)}, line {event.line}", highlight=False)
    for restore in run.restores:
        console.print(f"restored {escape_rich(restore.summary)}, line {restore.line}", highlight=False)
    if run.error:
        console.print(f"[red]died:[/] {escape_rich(run.error.summary)} (line {run.error.line})", highlight=False)
        if run.error.why:
            console.print(f"      {escape_rich(run.error.why)}", highlight=False)
    if run.survived:
        words = f"{escape_rich(run.survived.summary)} (line {run.survived.line})"
        console.print(f"[yellow]exception, though the exit code is 0:[/] {words}", highlight=False)
    state = "complete" if coverage.complete else "truncated" if coverage.truncated else "no end in the log"
    if run.fate == "finished" and run.exit_code is None:
        state = "all planned steps, no exit code"
    elif run.fate == "cut_off":
        state = "cut off"
    console.print(
        f"read {coverage.step_lines_parsed} of {coverage.step_lines_seen} step lines; {state}; "
        f"exit code {run.exit_code}",
        highlight=False,
    )
    for line in coverage.unread:
        console.print(f"[red]not read:[/] line {line.line}: {escape_rich(line.text)}", highlight=False, soft_wrap=True)
    console.print()


def json_text(reading: LogReading) -> Iterator[str]:
    """Yield the reading's JSON text in pieces, so that the text of a large table is never completely in memory."""
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
    """Return each row as the text of an object.

    polars writes NaN and infinity as null. Rows with NaN or infinity in the same columns are therefore written
    together, and these columns as text.
    """
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


def show_progress(console: Console, size: int, line: bytes) -> None:
    """Print the number of bytes read so far (`size`) in MB, and the end of the last line."""
    text = escape_rich(line.decode("utf-8", "replace").strip()[-100:])
    console.print(f"{size / 1e6:,.1f} MB  {text}", highlight=False, no_wrap=True, overflow="ellipsis")


def warn_of_unread(reading: LogReading) -> None:
    """Print a warning to standard error if step lines could not be read, because no result includes them."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for run in reading.runs:
        coverage = run.coverage
        lacking = max(coverage.step_lines_seen - coverage.step_lines_parsed, len(coverage.unread))
        if not lacking:
            continue
        lines = ", ".join(str(line.line) for line in coverage.unread)
        more = "" if lacking <= len(coverage.unread) else " and others"
        console.print(
            f"[red]warning:[/] {escape_rich(run.name)}: {lacking} of {coverage.step_lines_seen} step lines could "
            f"not be read (line {lines}{more}); their values are in no table"
        )
