"""Prints the runs that were read from a log, or writes them to a file as text, JSON or Parquet."""

import io
import sys
from pathlib import Path
from typing import Literal

import polars as pl
from rich.console import Console
from rich.table import Table

from tasks.publish.content.draw_schedule import draw_schedule
from tasks.publish.json.reading import json_text
from tasks.records import LogReading, RunReading
from tasks.records.text import counted, plain
from tasks.store import write_atomically
from tasks.store.atomic import write_bytes_atomically


def show_reading(reading: LogReading, format_: Literal["table", "json", "parquet"], output: Path | None) -> None:
    """Print the runs, or write them to `output`: tables as text, one JSON object, or the steps of all runs as Parquet.

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


def write_schedule(reading: LogReading, path: Path) -> None:
    """Write the SVG of the only schedule in a reading. Raises ValueError if there is none, or more than one."""
    runs = [run for run in reading.runs if run.schedule]
    if len(runs) != 1:
        raise ValueError(
            f"--schedule needs one log with events like 'rank 6 forward start tensor 0', these hold {len(runs)}: "
            + ("give one at a time" if runs else "leave it out")
        )
    write_atomically(path, draw_schedule(runs[0]) or "")


def _show_run(console: Console, run: RunReading) -> None:
    environment, coverage = run.environment, run.coverage
    facts = [
        run.format,
        f"JAX {environment.jax}" if environment.jax else "",
        counted(environment.num_devices, "device") if environment.num_devices else "",
        environment.device_kind or "",
    ]
    console.print(f"[bold]{plain(run.name)}[/]  {plain(', '.join(fact for fact in facts if fact))}")
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
        console.print(f"checkpoint {event.step}: {plain(event.summary)}, line {event.line}", highlight=False)
    for restore in run.restores:
        console.print(f"restored {plain(restore.summary)}, line {restore.line}", highlight=False)
    if run.error:
        console.print(f"[red]died:[/] {plain(run.error.summary)} (line {run.error.line})", highlight=False)
        if run.error.why:
            console.print(f"      {plain(run.error.why)}", highlight=False)
    if run.survived:
        words = f"{plain(run.survived.summary)} (line {run.survived.line})"
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
        console.print(f"[red]not read:[/] line {line.line}: {plain(line.text)}", highlight=False, soft_wrap=True)
    console.print()
