"""Turns the JSON lines that MaxText writes into the columns of our own trainer's."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

# MaxText's name -> ours; the others keep their own
COLUMNS = {
    "step": "step",
    "learning/loss": "loss",
    "learning/grad_norm": "grad_norm",
    "learning/param_norm": "param_norm",
    "learning/raw_grad_norm": "raw_grad_norm",
    "learning/current_learning_rate": "learning_rate",
    "learning/total_weights": "total_weights",
    "perf/step_time_seconds": "step_time_s",
}
GROUPS = ("learning", "perf", "eval", "evaluation")  # of the first line, which may be of an evaluation
WHOLE = ("total_weights",)  # as the step is: MaxText writes every number as a float
LOSS = "learning/loss"  # what a row of training has, and one of an evaluation has not


def wrote_metrics(text: str) -> bool:
    """Whether a text begins as MaxText's JSON lines do, whose names have a group before them."""
    first = text.lstrip().partition("\n")[0]
    return any(f'"{group}/' in first for group in GROUPS)


def read_maxtext_metrics(path: Path) -> pl.DataFrame | None:
    """One row per training step, ascending, the last of a step that was done again; None if there are none.

    Evaluations have lines of their own, and are left out, as is a last line that a crash cut off. Raises ValueError
    naming a line that is no JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        try:
            values = json.loads(line)
            if LOSS in values:
                rows.append(make_row(values))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: not a JSON object with a step: {line[:40]!r}") from error
    return make_frame(rows)


def make_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """One step's values under our names. Raises KeyError, ValueError, TypeError or OverflowError if it is none."""
    row = {COLUMNS.get(key, key): value for key, value in values.items() if key != "run_name"}
    return row | {"step": int(row["step"])} | {key: int(row[key]) for key in WHOLE if key in row}


def make_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame | None:
    """A frame with the last row of each step, ascending; None if there are none."""
    last = {row["step"]: row for row in rows}
    return pl.DataFrame([last[step] for step in sorted(last)], infer_schema_length=None) if last else None
