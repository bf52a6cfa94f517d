"""Turns the JSON lines that MaxText writes into the columns of our own trainer's."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tasks.records import metric_from_json, step_from_json

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
GROUPS = ("learning", "perf", "eval", "evaluation")  # prefixes of keys; the first line may be an evaluation's
WHOLE = ("total_weights",)  # integer columns besides the step: MaxText writes every number as a float
LOSS = "learning/loss"  # present in a training step's row, absent in an evaluation's


def wrote_metrics(text: str) -> bool:
    """Return whether a text begins like MaxText's JSON lines, whose keys have a group as their prefix."""
    first = text.lstrip().partition("\n")[0]
    return any(f'"{group}/' in first for group in GROUPS)


def read_maxtext_metrics(path: Path) -> pl.DataFrame | None:
    """Return one row per training step, ascending, the last row of a repeated step; None if there are none.

    Leaves out evaluations, which have their own lines, and a truncated last line. Raises ValueError naming a line that
    is no JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
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
    """Return one step's values under our names. Raises KeyError, ValueError, TypeError or OverflowError for others."""
    row = {COLUMNS.get(key, key): metric_from_json(value) for key, value in values.items() if key != "run_name"}
    whole = {key: int(value) for key in WHOLE if (value := row.get(key)) is not None}
    return row | {"step": step_from_json(row["step"])} | whole


def make_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame | None:
    """Return a frame with the last row of each step, ascending; None if there are no rows."""
    last = {row["step"]: row for row in rows}
    return pl.DataFrame([last[step] for step in sorted(last)], infer_schema_length=None) if last else None
