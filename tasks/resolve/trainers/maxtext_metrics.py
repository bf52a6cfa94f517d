"""Reads MaxText's metrics file (JSON lines) into a frame with the columns of maxview's metrics.jsonl."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tasks.records import metric_from_json, step_from_json

# MaxText's key → our column; other keys keep MaxText's name
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
GROUPS = ("learning", "perf", "eval", "evaluation")  # key prefixes; the first line may be an evaluation
WHOLE = ("total_weights",)  # columns converted to integers, like `step`: MaxText writes every number as a float
LOSS = "learning/loss"  # present in the line of a training step, absent in the line of an evaluation


def wrote_metrics(text: str) -> bool:
    """Return whether a text's first line has keys with MaxText's prefixes, such as `learning/`."""
    first = text.lstrip().partition("\n")[0]
    return any(f'"{group}/' in first for group in GROUPS)


def read_maxtext_metrics(path: Path) -> pl.DataFrame | None:
    """Return one row per training step, ascending, the last row of a repeated step; None if there are none.

    None also if the file is missing. Leaves out lines of evaluations and a truncated last line. Raises ValueError
    naming a line that is no JSON object with a step.
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
    """Return one step's values by our column names. Raises KeyError, ValueError, TypeError or OverflowError."""
    row = {COLUMNS.get(key, key): metric_from_json(value) for key, value in values.items() if key != "run_name"}
    whole = {key: int(value) for key in WHOLE if (value := row.get(key)) is not None}
    return row | {"step": step_from_json(row["step"])} | whole


def make_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame | None:
    """Return a frame with one row per step, ascending: the step's last row. None if there are no rows."""
    last = {row["step"]: row for row in rows}
    return pl.DataFrame([last[step] for step in sorted(last)], infer_schema_length=None) if last else None
