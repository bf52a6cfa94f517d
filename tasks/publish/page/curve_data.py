"""Writes the data files of the page's curves, and lists the stalls, saves and evaluations that the curves mark.

An arm is one of the two compared versions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from tasks.diff.judge.time_rows import STEP_PARTS
from tasks.metrics.result_metrics import LOSS
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.content.verdict_words import sides_of
from tasks.publish.page.log_files import Logs
from tasks.publish.page.logview import LogView
from tasks.publish.page.replace_text import replace_text
from tasks.records.compared_case import ComparisonRecord
from tasks.records.log_reading import Stall
from tasks.records.run import RunRecord
from tasks.records.text import shorten, visible

TITLES = {  # metric -> (title, unit); any other metric's title is its column's name
    **{metric.curve: (metric.curve_title or metric.title, metric.unit) for metric in METRICS if metric.curve},
    **{part: (f"Step time: {what}", "s") for part, what in STEP_PARTS.items()},
    "total_weights": ("Weights", "tokens"),
    "grad_norm": ("Gradient norm", ""),
    "param_norm": ("Parameter norm", ""),
    "learning_rate": ("Learning rate", ""),
}
# columns of runs' tables that are not drawn here; the curves of loss and step time come from the comparison
NO_CURVE = frozenset({"step", "line", "offset", "time", "seconds", LOSS.curve, STEP_TIME.curve})
MAX_FILE = 256_000  # characters in a file with several curves
MAX_MARKS = 2_000  # marks per arm; more could not be distinguished


@dataclass(frozen=True)
class Trace:
    """One run's values of one metric."""

    side: str  # "baseline" or "candidate"
    log: str  # `LogView.prefix` of the run's log; empty if the page has no log of the run
    run: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]  # one per step; None: absent or not finite
    lines: tuple[int | None, ...]  # number in `log` of each value's line; None if unknown


def write_figures(
    record: ComparisonRecord, runs: Mapping[str, RunRecord], logs: Logs, folder: Path
) -> list[dict[str, Any]]:
    """Write all curves into `curves/<n>.js`; return each metric's `id`, `title`, `unit`, `note` and number of `file`.

    `runs`: `arm/run name` → run record; runs without an entry have only the curves of the comparison. The files contain
    every value; the page's script thins them out to fit the screen. They are few, since each is a request to a bucket.
    Raises StoreError if a file cannot be written.
    """
    figures, files = [], [""]
    for number, (metric, traces) in enumerate(_metrics(record, runs, logs).items()):
        title, unit = map(visible, TITLES.get(metric) or (metric.replace("_", " "), ""))
        text = json.dumps([vars(trace) for trace in traces], separators=(",", ":"), allow_nan=False)
        if len(files[-1]) + len(text) > MAX_FILE and files[-1]:
            files.append("")
        files[-1] += f"maxviewCurve({number},{text});\n"
        note = _note(record, metric, traces)
        figures.append({"id": metric, "title": title, "unit": unit, "note": note, "file": len(files) - 1})
    for number, text in enumerate(files if figures else ()):
        replace_text(folder / f"curves/{number}.js", text)
    return figures


def list_marks(record: ComparisonRecord, runs: Mapping[str, RunRecord]) -> list[dict[str, Any]]:
    """Return `side`, `step` and `cause` of each mark, per arm: stalls, then saves, then the first run's evaluations."""
    marks = []
    for side, arm in sides_of(record):
        stalls: tuple[Stall, ...] = record.stalls.get(arm.name, ())
        found = [(stall.step, visible(stall.cause)) for stall in stalls]
        found += [(event.step, "checkpoint") for event in arm.checkpoints if event.step is not None]
        first = runs.get(f"{arm.name}/{arm.runs[0]}") if arm.runs else None
        steps = [entry.get("step") for entry in first.reading.evals] if first else []
        found += [(step, "eval") for step in steps if isinstance(step, int)]
        marks += [{"side": side, "step": step, "cause": cause} for step, cause in dict.fromkeys(found[:MAX_MARKS])]
    return marks


def _metrics(record: ComparisonRecord, runs: Mapping[str, RunRecord], logs: Logs) -> dict[str, list[Trace]]:
    """Return metric → traces. Omits a metric without finite values, unless the record's curve has NaN or infinity."""
    found: dict[str, list[Trace]] = {}
    for curve in record.curves:
        side, arm = sides_of(record)[curve.arm == record.candidate.name]
        view = logs.view(arm, arm.runs.index(curve.run_name)) if curve.run_name in arm.runs else None
        trace = _trace(side, curve.run_name, view, curve.steps, curve.values, curve.offsets)
        found.setdefault(curve.metric, []).append(trace)
    for side, arm in sides_of(record):
        for place, name in enumerate(arm.runs):
            run = runs.get(f"{arm.name}/{name}")
            for metric, steps, values, offsets in _printed(run) if run else ():
                trace = _trace(side, name, logs.view(arm, place), steps, values, offsets)
                found.setdefault(metric, []).append(trace)
    drawn = {metric: [trace for trace in traces if trace.steps] for metric, traces in found.items()}
    strange = {curve.metric for curve in record.curves if any(v is not None and not isfinite(v) for v in curve.values)}
    return {
        metric: traces
        for metric, traces in drawn.items()
        if metric in strange or any(value is not None for trace in traces for value in trace.values)
    }


def _trace(
    side: str,
    run: str,
    view: LogView | None,
    steps: Sequence[int],
    values: Sequence[float | None],
    offsets: Sequence[int | None],
) -> Trace:
    return Trace(
        side=side,
        log=view.prefix if view else "",
        run=shorten(visible(run), 60),
        steps=tuple(steps),
        values=tuple(value if value is not None and isfinite(value) else None for value in values),
        lines=tuple(view.number(offset) if view and offset is not None else None for offset in offsets),
    )


def _printed(run: RunRecord) -> Iterator[tuple[str, list[int], list[float | None], list[int | None]]]:
    """Yield (metric, steps, values, offsets) of each numeric column that varies: of the metrics file, then of the log.

    Omits the columns in NO_CURVE. The metrics file takes precedence for a column that both have.
    """
    steps, seen = run.reading.steps, set(NO_CURVE)
    offsets = dict(zip(steps["step"].to_list(), steps["offset"].to_list(), strict=True))
    for table in [run.metrics, steps] if run.metrics is not None and "step" in run.metrics.columns else [steps]:
        for column in table.columns:
            values = table[column].to_list()
            if column in seen or not table.schema[column].is_numeric() or all(value == values[0] for value in values):
                continue  # no curve, already yielded, or constant and therefore a setting
            seen.add(column)
            numbers = table["step"].to_list()
            yield column, numbers, values, [offsets.get(step) for step in numbers]


def _note(record: ComparisonRecord, metric: str, traces: list[Trace]) -> str:
    """Return a note on arms without a curve and on values that are not finite; empty if there are none."""
    drawn = {trace.side for trace in traces if trace.steps}
    notes = [
        f"{visible(arm.name)}: {'died before its first step' if arm.has_died else 'no such value in its log'}"
        for side, arm in sides_of(record)
        if side not in drawn
    ]
    for curve in record.curves:
        strange = [s for s, v in zip(curve.steps, curve.values, strict=True) if v is not None and not isfinite(v)]
        if curve.metric == metric and strange:
            more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
            notes.append(f"{visible(curve.arm)}: not a finite number at step {strange[0]}{more}")
    return "; ".join(dict.fromkeys(notes))
