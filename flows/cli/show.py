"""Prints single results on the terminal: a resolved config, a reading, checkpoint proofs, the matrix of cases."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.comparison import Target, find, first_comment, list_names, load_comparison, load_target
from tasks.publish.schedule import draw_schedule
from tasks.publish.text import visible
from tasks.records import CheckpointProof, LogReading, RunReading
from tasks.resolve.plans import ResolvedConfig
from tasks.scrape import json_text
from tasks.store import write_atomically
from tasks.store.atomic import write_bytes_atomically


def show_config(resolved: ResolvedConfig, target: Target, *, as_json: bool) -> None:
    """Every key, its value and where it was set; and what the trainer's environment is."""
    values = resolved.config.model_dump()
    if as_json:
        shown: dict[str, Any] = {k: {"value": v, "origin": resolved.values[k].origin} for k, v in values.items()}
        shown["environment"] = {"set": target.environment, "passed_on": target.passed_on}
        print(json.dumps(shown, indent=1))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("key", "value", "set in"):
        table.add_column(column, overflow="fold")
    for key, value in values.items():
        origin = resolved.values[key]
        style = "" if origin.layer == "base" else "bold"
        table.add_row(key, escape(json.dumps(value)), origin.origin, style=style)
    console = Console()
    console.print(table)
    beside = "and nothing else:" if target.backend == "local" else "beside what its image and cluster set:"
    console.print(f"\nThe trainer's environment on {target.name}, {beside}", highlight=False)
    for name, value in target.environment.items():
        console.print(f"  {name}={value}", highlight=False, markup=False, soft_wrap=True)
    if target.passed_on:
        console.print(f"  as it is here: {' '.join(target.passed_on)}", highlight=False, markup=False, soft_wrap=True)


def show_matrix(*, as_json: bool) -> None:
    """What can be compared, in which cases, where."""
    cases = {name: first_comment(find("cases", name)) for name in list_names("cases")}
    comparisons = {name: load_comparison(name).question for name in list_names("comparisons")}
    targets = {name: load_target(name) for name in list_names("targets")}
    if as_json:
        shown = {name: target.model_dump() for name, target in targets.items()}
        print(json.dumps({"cases": cases, "comparisons": comparisons, "targets": shown}, indent=1))
        return
    console = Console()
    for title, rows in (
        ("comparisons", comparisons),
        ("cases", cases),
        (
            "targets",
            {name: f"{target.devices} × {target.backend}, model {target.model}" for name, target in targets.items()},
        ),
        ("models", {name: first_comment(find("models", name)) for name in list_names("models")}),
    ):
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
        )
        table.add_column(no_wrap=True)
        table.add_column()
        for name, text in rows.items():
            table.add_row(name, escape(text))
        console.print(table)
        console.print()
    console.print("Next: maxview compare linen-vs-nnx --case 03_dropout", highlight=False)


def show_reading(reading: LogReading, format_: Literal["table", "json", "parquet"], output: Path | None) -> None:
    """A log's tables: on the terminal, as one JSON object, or the steps of every run as Parquet."""
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
        pl.concat(frames, how="diagonal_relaxed").write_parquet(output)
        return
    console = Console() if output is None else Console(file=output.open("w", encoding="utf-8"), width=120)
    for run in reading.runs:
        _show_run(console, run)


def write_schedule(reading: LogReading, path: Path) -> None:
    """The picture of the one schedule in a reading. Raises ValueError if there is none, or more than one."""
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
        f"{environment.num_devices} devices" if environment.num_devices else "",
        environment.device_kind or "",
    ]
    console.print(f"[bold]{_plain(run.name)}[/]  {_plain(', '.join(fact for fact in facts if fact))}")
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
        console.print(f"checkpoint {event.step}: {_plain(event.told)}, line {event.line}", highlight=False)
    for restore in run.restores:
        console.print(f"restored {_plain(restore.told)}, line {restore.line}", highlight=False)
    if run.error:
        console.print(f"[red]died:[/] {_plain(run.error.told)} (line {run.error.line})", highlight=False)
        if run.error.why:
            console.print(f"      {_plain(run.error.why)}", highlight=False)
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
        console.print(f"[red]not read:[/] line {line.line}: {_plain(line.text)}", highlight=False, soft_wrap=True)
    console.print()


def show_proofs(proofs: Sequence[CheckpointProof], *, as_json: bool) -> None:
    """What was checked of each checkpoint and what is wrong with it."""
    if as_json:
        print(json.dumps([proof.model_dump(mode="json") for proof in proofs], indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    for proof in proofs:
        word = "[green]✓ sound[/]" if proof.ok else "[red]✗ not sound[/]"
        size = f"{proof.arrays} arrays, {proof.files} files, {proof.bytes / 1e6:.1f} MB, {proof.seconds:.2f} s"
        console.print(f"{word}  {_plain(proof.path)}  ({', '.join(proof.checks)}; {size})")
        for problem in proof.problems:
            console.print(f"   {problem.check}: {_plain(problem.path)}: {_plain(problem.message)}")


def _plain(text: str) -> str:
    """Text of a log or a file name as itself: neither markup nor control characters."""
    return escape(visible(text))
