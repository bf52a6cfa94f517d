"""Turns the step values of a comparison's runs into the data files of the page's curves."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from tasks.diff.host import PARTS
from tasks.metrics.result_metrics import LOSS
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.content.verdict_words import name_side
from tasks.publish.page.log_files import Logs
from tasks.publish.page.streamed_file import replace_text
from tasks.records import ArmSummary, ComparisonRecord, RunRecord, Stall
from tasks.records.text import shorten, visible

TITLES = {  # and units; other values have their name in the log
    **{metric.curve: (metric.curve_title or metric.title, metric.unit) for metric in METRICS if metric.curve},
    **{part: (f"Step time: {what}", "s") for part, what in PARTS.items()},
    "total_weights": ("Weights", "tokens"),
    "grad_norm": ("Gradient norm", ""),
    "param_norm": ("Parameter norm", ""),
    "learning_rate": ("Learning rate", ""),
}
NO_CURVE = frozenset({"step", "line", "offset", "time", "seconds", LOSS.curve, STEP_TIME.curve})
MOST_MARKS = 2_000  # of each arm: more bands could not be distinguished


@dataclass(frozen=True)
class Trace:
    """One run's values of one metric; `lines` are their line numbers in `log`, null for values that are not in it."""

    side: str
    log: str  # name of the run's log on the page; empty if there is no log
    run: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    lines: tuple[int | None, ...]


def write_figures(
    record: ComparisonRecord, runs: Mapping[str, RunRecord], logs: Logs, folder: Path
) -> list[dict[str, Any]]:
    """Write `curves/<n>.js` for each metric, and return what the page tells of it: `id`, `title`, `unit`, `note`.

    `runs`: by `arm/run name`; without them there are the curves of the comparison alone. Every value is kept: what a
    screen has no room for is left out when it is drawn. Raises StoreError.
    """
    figures = []
    for number, (metric, traces) in enumerate(_metrics(record, runs, logs).items()):
        title, unit = TITLES.get(metric) or (metric.replace("_", " "), "")
        data = [vars(trace) for trace in traces]
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
        replace_text(folder / f"curves/{number}.js", f"maxviewCurve({number},{text});\n")
        note = _note(record, metric, traces)
        figures.append({"id": metric, "title": visible(title), "unit": visible(unit), "note": note})
    return figures


def list_marks(record: ComparisonRecord, runs: Mapping[str, RunRecord]) -> list[dict[str, Any]]:
    """Return the steps with a band: `side`, `step`, `cause`; stalls by their cause, then saves and evaluations."""
    marks = []
    for side, arm in (("baseline", record.baseline), ("candidate", record.candidate)):
        stalls: tuple[Stall, ...] = record.stalls.get(arm.name, ())
        found = [(stall.step, visible(stall.cause)) for stall in stalls]
        found += [(event.step, "checkpoint") for event in arm.checkpoints if event.step is not None]
        first = runs.get(f"{arm.name}/{arm.runs[0]}") if arm.runs else None
        steps = [entry.get("step") for entry in first.reading.evals] if first else []
        found += [(step, "eval") for step in steps if isinstance(step, int)]
        marks += [{"side": side, "step": step, "cause": cause} for step, cause in dict.fromkeys(found[:MOST_MARKS])]
    return marks


def _metrics(record: ComparisonRecord, runs: Mapping[str, RunRecord], logs: Logs) -> dict[str, list[Trace]]:
    """Return the traces of every metric: those of the comparison first, then all others in the logs."""
    found: dict[str, list[Trace]] = {}
    for curve in record.curves:
        arm = record.candidate if curve.arm == record.candidate.name else record.baseline
        run = arm.runs.index(curve.run_name) if curve.run_name in arm.runs else None
        view = None if run is None else logs.view(arm, run)
        trace = Trace(
            side=name_side(record, curve.arm) or "baseline",
            log=view.prefix if view else "",
            run=_run_name(curve.run_name),
            steps=curve.steps,
            values=tuple(map(_finite, curve.values)),
            lines=tuple(view.number(o) if view and o is not None else None for o in curve.offsets),
        )
        found.setdefault(curve.metric, []).append(trace)
    for side, arm in (("baseline", record.baseline), ("candidate", record.candidate)):
        for metric, trace in _printed(side, arm, runs, logs):
            found.setdefault(metric, []).append(trace)
    drawn = {metric: [trace for trace in traces if trace.steps] for metric, traces in found.items()}
    strange = {curve.metric for curve in record.curves if any(v is not None and not isfinite(v) for v in curve.values)}
    return {
        metric: traces
        for metric, traces in drawn.items()
        if metric in strange or any(value is not None for trace in traces for value in trace.values)
    }


def _printed(side: str, arm: ArmSummary, runs: Mapping[str, RunRecord], logs: Logs) -> Iterator[tuple[str, Trace]]:
    """Return the other numbers in an arm's step lines, or in its metrics file if that has more of them."""
    for place, name in enumerate(arm.runs):
        run = runs.get(f"{arm.name}/{name}")
        if run is None:
            continue
        view, steps = logs.view(arm, place), run.reading.steps
        where = {
            step: view.number(offset) if view and offset is not None else None
            for step, offset in zip(steps["step"].to_list(), steps["offset"].to_list(), strict=True)
        }
        tables = [run.metrics, steps] if run.metrics is not None and "step" in run.metrics.columns else [steps]
        seen: set[str] = set()
        for table in tables:
            for column in table.columns:
                if column in NO_CURVE | seen or not table.schema[column].is_numeric() or not table.height:
                    continue
                values = table[column].to_list()
                if all(value == values[0] for value in values):
                    continue  # a setting, not a curve
                seen.add(column)
                numbers = tuple(table["step"].to_list())
                yield (
                    column,
                    Trace(
                        side=side,
                        log=view.prefix if view else "",
                        run=_run_name(name),
                        steps=numbers,
                        values=tuple(map(_finite, values)),
                        lines=tuple(where.get(step) for step in numbers),
                    ),
                )


def _run_name(name: str) -> str:
    return shorten(visible(name), 60)


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _note(record: ComparisonRecord, metric: str, traces: list[Trace]) -> str:
    """Return a note on what the curves cannot show: arms without a step, and values that are not finite."""
    drawn = {trace.side for trace in traces if trace.steps}
    notes = [
        f"{visible(arm.name)}: {'died before its first step' if arm.has_died else 'no such value in its log'}"
        for side, arm in (("baseline", record.baseline), ("candidate", record.candidate))
        if side not in drawn
    ]
    for curve in record.curves:
        strange = [s for s, v in zip(curve.steps, curve.values, strict=True) if v is not None and not isfinite(v)]
        if curve.metric == metric and strange:
            more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
            notes.append(f"{visible(curve.arm)}: not a finite number at step {strange[0]}{more}")
    return "; ".join(dict.fromkeys(notes))
