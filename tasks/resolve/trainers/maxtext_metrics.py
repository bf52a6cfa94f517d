"""Reads MaxText's metrics of a run into a frame with the columns of maxview's metrics.jsonl.

MaxText writes every step to TensorBoard files, which may be in a bucket, and outside of pods also as JSON lines.
TensorBoard files store float32: losses and norms are float32 anyway, but times lose their last digits.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tasks.records.json_numbers import metric_from_json, step_from_json
from tasks.scrape.event_files import EVENT_FILES, read_scalars

# MaxText's key → maxview's column; other keys keep MaxText's name
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
TENSORBOARD = "tensorboard"  # in the run's folder: MaxText creates a subfolder there with the run's name
EVALUATIONS = ("eval/", "evaluation/")


def has_maxtext_keys(text: str) -> bool:
    """Return whether a text's first line has keys with MaxText's prefixes, such as `learning/`."""
    first = text.lstrip().partition("\n")[0]
    return any(f'"{group}/' in first for group in GROUPS)


def read_maxtext_metrics(path: Path) -> pl.DataFrame | None:
    """Return the metrics in a file of JSON lines: a row per training step, ascending; None without a row or file.

    A repeated step has its last row. Leaves out lines of evaluations and a truncated last line. Raises ValueError
    that names a damaged line.
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
                rows.append(read_step_values(values))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ValueError(f"{path}:{number}: not a JSON object with a step: {line[:40]!r}") from error
    return make_frame(rows)


def read_step_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return one step's values by maxview's column names. Raises KeyError, ValueError, TypeError or OverflowError."""
    row = {COLUMNS.get(key, key): metric_from_json(value) for key, value in values.items() if key != "run_name"}
    whole = {key: int(value) for key in WHOLE if (value := row.get(key)) is not None}
    return row | {"step": step_from_json(row["step"])} | whole


def make_frame(rows: Iterable[dict[str, Any]]) -> pl.DataFrame | None:
    """Return a frame with the last row of each step, ascending by step; None if there are no rows."""
    last = {row["step"]: row for row in rows}
    return pl.DataFrame([last[step] for step in sorted(last)], infer_schema_length=None) if last else None


def read_maxtext_events(folder: Path) -> pl.DataFrame | None:
    """Return the metrics in a folder of TensorBoard files: a row per training step, ascending; None without a row.

    Each start of the trainer writes a file. Rows of a later file replace earlier rows of the same steps; a file with
    step 0 replaces all earlier files. Ignores a truncated last record. Raises ValueError that names a damaged file.
    """
    rows: dict[int, dict[str, Any]] = {}
    for path in sorted(
        folder.rglob(EVENT_FILES), key=lambda path: path.name
    ):  # the name contains the start time in seconds
        try:
            found = {step: read_step_values({**values, "step": step}) for step, values in _read_steps(path).items()}
        except (DecodeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path}: is no TensorBoard file, or is damaged: {error}") from error
        rows = found if 0 in found else rows | found
    return make_frame(rows.values())


def _read_steps(path: Path) -> dict[int, dict[str, float]]:
    steps: dict[int, dict[str, float]] = {}
    for scalar in read_scalars(path):
        if not scalar.tag.startswith(EVALUATIONS):
            steps.setdefault(scalar.step, {})[scalar.tag] = scalar.value
    return {step: values for step, values in steps.items() if LOSS in values}
