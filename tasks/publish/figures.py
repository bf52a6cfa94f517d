"""Turns the curves and stalls of a comparison record into the data that the page's charts are drawn from."""

from collections.abc import Callable
from math import isfinite
from typing import Any

from tasks.publish.curves import thin_out
from tasks.publish.text import shorten, visible
from tasks.publish.words import is_dead, name_side
from tasks.records import ArmSummary, ComparisonRecord, Curve, Source, Stall

POINTS = 1_000  # per curve; a page is about as wide
TITLES = {"loss": ("Loss", ""), "step_time_s": ("Step time", "s")}

type Anchor = Callable[[ArmSummary, Source | None], str | None]  # (arm, place) -> anchor


def list_figures(record: ComparisonRecord, anchor: Anchor) -> list[dict[str, Any]]:
    """One JSON object per metric: `id`, `title`, `unit`, `scale`, `note`, `traces[]` and `marks[]` (the stalls).

    Texts in it are made for plotly.js, which reads tags in them: they are escaped here.
    """
    metrics = list(dict.fromkeys(curve.metric for curve in record.curves))
    return [_figure(record, metric, anchor) for metric in metrics]


def shown_points(curve: Curve) -> list[int]:
    """The indices of a curve's points that its chart shows."""
    return thin_out(curve.values, POINTS)


def _figure(record: ComparisonRecord, metric: str, anchor: Anchor) -> dict[str, Any]:
    curves = [curve for curve in record.curves if curve.metric == metric]
    title, unit = TITLES.get(metric, (metric, ""))
    marks = [mark for curve in curves for mark in _marks(record, curve, anchor)] if metric == "step_time_s" else []
    values = [v for curve in curves for v in curve.values if v is not None and isfinite(v)]
    # a stall is hundreds of steps high: only a logarithmic axis shows both
    stretched = bool(values) and min(values) > 0 and max(values) > 20 * min(values)
    return {
        "id": metric,
        "title": title,
        "unit": unit,
        "scale": "log" if stretched else "linear",
        "logarithmic": bool(values) and min(values) > 0,
        "note": _note(record, curves),
        "traces": [_trace(record, curve, anchor) for curve in curves],
        "marks": marks,
    }


def _trace(record: ComparisonRecord, curve: Curve, anchor: Anchor) -> dict[str, Any]:
    kept = shown_points(curve)
    arm, run = _run_of(record, curve)
    return {
        "side": name_side(record, curve.arm),
        "name": _tagless(shorten(curve.arm, 40)),
        "run": _tagless(shorten(curve.run_name, 60)),
        "x": [curve.steps[i] for i in kept],
        "y": [_finite(curve.values[i]) for i in kept],
        "text": ["" if (v := curve.values[i]) is None else f"{v:.9g}" for i in kept],
        "line": [anchor(arm, _place(curve, i, run)) for i in kept],
    }


def _marks(record: ComparisonRecord, curve: Curve, anchor: Anchor) -> list[dict[str, Any]]:
    stalls: tuple[Stall, ...] = record.stalls.get(curve.arm, ())
    arm, run = _run_of(record, curve)
    by_place = {(stall.step, stall.offset): stall for stall in stalls if stall.run == run}
    marks = []
    for i, step in enumerate(curve.steps):
        stall = by_place.get((step, curve.offsets[i]))
        value = _finite(curve.values[i])
        if stall is not None and value is not None:
            where = anchor(arm, _place(curve, i, run))
            side = name_side(record, curve.arm)
            marks.append({"x": step, "y": value, "cause": _tagless(stall.cause), "side": side, "line": where})
    return marks


def _run_of(record: ComparisonRecord, curve: Curve) -> tuple[ArmSummary, int | None]:
    arm = record.candidate if curve.arm == record.candidate.name else record.baseline
    return arm, arm.runs.index(curve.run_name) if curve.run_name in arm.runs else None


def _place(curve: Curve, i: int, run: int | None) -> Source | None:
    return None if run is None else Source(line=curve.lines[i], offset=curve.offsets[i], run=run)


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _note(record: ComparisonRecord, curves: list[Curve]) -> str:
    """What the drawn lines cannot show: arms without a step, values that are no numbers, points that were left out."""
    drawn = {curve.arm for curve in curves if curve.steps}
    notes = [
        f"{visible(arm.name)}: {'died before its first step' if is_dead(arm) else 'no step in its log'}"
        for arm in (record.baseline, record.candidate)
        if arm.name not in drawn
    ]
    for curve in curves:
        strange = [s for s, v in zip(curve.steps, curve.values, strict=True) if v is not None and not isfinite(v)]
        if strange:
            more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
            notes.append(f"{visible(curve.arm)}: not a finite number at step {strange[0]}{more}")
        if len(curve.steps) > len(shown_points(curve)):
            notes.append(
                f"{visible(curve.arm)}: of {len(curve.steps):,} steps the lowest and highest of each stretch are drawn"
            )
    return "; ".join(dict.fromkeys(notes))


def _tagless(text: str) -> str:
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
