"""Turns a LogReading into the object that `maxview scrape --format json` prints."""

from typing import Any

from tasks.records import LogReading, RunReading, number_to_json

# the keys that every reader of the JSON can count on come first, in this order
_KEYS = (
    "name", "exit_code", "started", "ended", "error", "steps", "evals", "environment", "memory", "parameters", "flops",
    "checkpoints", "stalls", "config", "ranks", "schedule", "coverage",
)  # fmt: skip


def to_json(reading: LogReading) -> dict[str, Any]:
    """Plain dicts and lists; what is absent is None; NaN and infinities are "nan", "inf", "-inf"."""
    runs = [_run_to_json(run) for run in reading.runs]
    return {"format": reading.format, "runs": runs, "page": _plain(reading.page)}


def _run_to_json(run: RunReading) -> dict[str, Any]:
    values = run.model_dump(exclude={"steps"})
    values["steps"] = list(run.steps.iter_rows(named=True))
    return {key: _plain(values[key]) for key in (*_KEYS, *(key for key in values if key not in _KEYS))}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return number_to_json(value)
