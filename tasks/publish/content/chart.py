"""Draws a comparison's curves, changes and times as SVG on white, for Prefect and pages without JavaScript."""

import base64
import re
from collections.abc import Sequence
from itertools import count
from math import isfinite
from typing import Any

import pygal  # type: ignore[import-untyped]
from pygal.style import Style  # type: ignore[import-untyped]

from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.content.templating import read_asset
from tasks.publish.content.time_bars import average_parts
from tasks.publish.content.verdict_words import OUTCOMES, Outcome, is_noise, name_verdict
from tasks.records import ComparisonRecord, Curve, MetricDiff
from tasks.records.text import shorten, visible

WIDTH = 760
POINTS = 120  # approximate number of points per curve; more could not be distinguished at this width
COLOURS: dict[str, str] = dict(
    re.findall(r"--([\w-]+): (#[0-9a-f]{6})", read_asset("page.css").partition("@media")[0])
)  # name -> colour of the light theme
SIDE_COLOURS = (COLOURS["baseline"], COLOURS["candidate"])
PARTS = {  # part of a run's time -> name of its colour
    "compute": "compute", "dispatch": "dispatch", "compile": "compile", "checkpoint": "checkpoint", "eval": "eval",
    "profiler": "profiler", "restart": "restart", "unexplained": "unexplained", "between": "between", "end": "end",
    "waits for saves": "wait", "blocking saves": "second", "wait at the end": "wait-end", "start": "outside",
    "evaluation at the end": "changed", "outside": "line",
}  # fmt: skip
LEGEND_COLUMNS = 4
LIMIT = 3.0  # thresholds; longer bars of `draw_changes` are cut off there


def draw_curve(record: ComparisonRecord, metric: str) -> str | None:
    """Return the curves of a metric as SVG text, one per run, the candidate's dashed; None without values.

    Step times omit the first step and stalls, because their scale would make the other steps look equal.
    """
    curves = [_steady(record, curve) for curve in record.curves if curve.metric == metric]
    curves = [curve for curve in curves if _points(curve)]
    if not curves:
        return None
    chart = pygal.XY(
        _config(260),
        style=_style([SIDE_COLOURS[curve.arm == record.candidate.name] for curve in curves]),
        title="step time without the first step and stalls, s" if metric == STEP_TIME.curve else f"{metric} per step",
        show_legend=True,
        legend_at_bottom=True,
        legend_at_bottom_columns=1,
        truncate_legend=90,
        dots_size=3,
        show_dots=all(len(curve.steps) <= 40 for curve in curves),
        x_title="step",
        x_value_formatter=lambda step: f"{step:g}",
    )
    for number, curve in zip(count(1), curves, strict=False):
        dashed = curve.arm == record.candidate.name
        stroke = {"dasharray": "7, 5"} if dashed else {}
        name = f"{'- - ' if dashed else '—— '}{visible(curve.arm)}"
        repeat = f", run {number}" if len(curves) > 2 else ""
        chart.add(shorten(name + repeat, 80), _points(curve), stroke_style=stroke)
    return _render(chart)


def draw_changes(record: ComparisonRecord) -> str | None:
    """Return a bar chart of changes in multiples of their thresholds, as SVG text; None if no row can be drawn.

    A row is drawn if it has a finite change, a threshold and a better direction.
    """
    rows = [row for row in record.rows if _scaled(row) is not None]
    if not rows:
        return None
    chart = pygal.HorizontalBar(
        _config(110 + 30 * len(rows)),
        style=_style(SIDE_COLOURS),
        title="change, in multiples of what would matter   (← better · worse →)",
        show_legend=False,
        range=(-LIMIT, LIMIT),
        y_labels=[-3, -2, -1, 0, 1, 2, 3],
        value_formatter=lambda value: f"{value:g} ×" if value else "0",
    )
    rows.reverse()  # pygal draws the first bar at the bottom
    chart.x_labels = [_label(row) for row in rows]
    chart.add("change", [{"value": _scaled(row), "color": colour_of(row.verdict)} for row in rows])
    return _render(chart)


def draw_times(record: ComparisonRecord) -> str | None:
    """Return the mean time account of each arm's runs as a stacked bar, as SVG text; None if no run has one."""
    # pygal draws the first bar at the bottom
    both = (("candidate", record.candidate), ("baseline", record.baseline))
    sides = [(side, parts) for side, arm in both if (parts := average_parts(record, arm.name))]
    if not sides:
        return None
    found = {part.part for _, parts in sides for part in parts}
    names = [name for name in PARTS if name in found] + sorted(found - PARTS.keys())
    more = (len(names) - 1) // LEGEND_COLUMNS
    chart = pygal.HorizontalStackedBar(
        _config(150 + 40 * len(sides) + 22 * more),
        style=_style([COLOURS[PARTS.get(name, "ink")] for name in names]),
        title="where the time of a run went, s",
        show_legend=True,
        legend_at_bottom=True,
        legend_at_bottom_columns=LEGEND_COLUMNS,
        margin_bottom=14 + 22 * more,  # pygal keeps room for one row of the legend
        truncate_legend=20,
        value_formatter=lambda value: f"{value:.3g} s",
    )
    chart.x_labels = [side for side, _ in sides]
    for name in names:
        chart.add(
            shorten(visible(name), 28),
            [{part.part: part.seconds for part in parts}.get(name, 0.0) for _, parts in sides],
        )
    return _render(chart)


def colour_of(outcome: Outcome) -> str:
    """Return the colour of an outcome in the light theme, `#rrggbb`."""
    return COLOURS.get("regressed" if outcome in ("died", "failed") else outcome, COLOURS["dim"])


def draw_icon(outcome: Outcome) -> str:
    """Return a page's favicon as SVG text: the sign of the outcome in white on the outcome's colour."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" rx="7" fill="{colour_of(outcome)}"/><text x="16" y="24" font-size="22" '
        'fill="#fff" font-family="sans-serif" font-weight="bold" text-anchor="middle">'
        f"{OUTCOMES[outcome].sign}</text></svg>"
    )


def to_data_uri(svg: str) -> str:
    """Return a data URI that shows the SVG as an image in Markdown and HTML."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _render(chart: pygal.graph.graph.Graph) -> str:
    """Return the chart as SVG text without the parts that an image cannot use; equal charts have equal texts."""
    chart.uuid = "chart"
    chart.add_xml_filter(_strip)
    return str(chart.render())


def _strip(root: Any) -> Any:
    """Remove scripts, comments (one contains the date) and the positions of tooltips."""
    for parent in list(root.iter()):
        for child in list(parent):
            place = child.tag == "desc" and child.get("class") != "value"
            if place or not isinstance(child.tag, str) or child.tag == "script":
                parent.remove(child)
    return root


def _config(height: int) -> pygal.Config:
    # js=[]: otherwise every chart loads a script from a public host
    return pygal.Config(
        width=WIDTH,
        height=height,
        explicit_size=True,
        js=[],
        disable_xml_declaration=True,
        no_data_text="nothing to draw",
        max_scale=8,
        margin=14,
    )


def _style(colours: Sequence[str]) -> Style:
    """Return the style of a chart on white; `colours`: one per series."""
    return Style(
        background="#ffffff",
        plot_background="#ffffff",
        foreground="#57606a",
        foreground_strong="#24292f",
        foreground_subtle="#d0d7de",
        font_family="system-ui, -apple-system, 'Segoe UI', sans-serif",
        label_font_size=12,
        major_label_font_size=12,
        legend_font_size=13,
        title_font_size=15,
        value_font_size=12,
        value_label_font_size=12,
        value_colors=("#24292f",) * 16,
        guide_stroke_color="#eaeef2",
        major_guide_stroke_color="#d0d7de",
        guide_stroke_dasharray="1,0",
        major_guide_stroke_dasharray="1,0",
        opacity="1",
        opacity_hover="1",
        stroke_opacity="1",
        stroke_width="2.5",
        transition="0s",
        colors=tuple(colours),
    )


def _steady(record: ComparisonRecord, curve: Curve) -> Curve:
    if curve.metric != STEP_TIME.curve:
        return curve
    left_out = {stall.step for stall in record.stalls.get(curve.arm, ())} | set(curve.steps[:1])
    values = tuple(v if s not in left_out else None for s, v in zip(curve.steps, curve.values, strict=True))
    return curve.model_copy(update={"values": values})


def _points(curve: Curve) -> list[tuple[int, float]]:
    kept = thin_out(curve.values, POINTS)
    pairs = [(curve.steps[i], curve.values[i]) for i in kept]
    return [(step, value) for step, value in pairs if value is not None and isfinite(value)]


def thin_out(values: Sequence[float | None], limit: int) -> list[int]:
    """Return the indices of about `limit` values that keep the shape of a curve: minimum and maximum of each stretch.

    A stretch is one of `limit` / 2 equal parts of the curve. Every n-th value would not do: a stall is one step in
    thousands. Both ends are kept. A stretch without any finite value keeps its first index, so that the gap remains.
    """
    total = len(values)
    if total <= limit:
        return list(range(total))
    kept = {0, total - 1}
    stretches = max(1, limit // 2)
    for number in range(stretches):
        low, high = number * total // stretches, (number + 1) * total // stretches
        finite = [(value, i) for i in range(low, high) if (value := values[i]) is not None and isfinite(value)]
        kept |= {min(finite)[1], max(finite)[1]} if finite else {low}
    return sorted(kept)


def _scaled(row: MetricDiff) -> float | None:
    """Return the change divided by its threshold, positive if worse, within ±LIMIT; None if it cannot be computed."""
    if row.difference is None or row.threshold is None or not isfinite(row.difference) or row.better == "equal":
        return None
    if row.difference == 0 or (row.threshold == 0 and row.verdict == "same"):  # the same up to rounding
        return 0.0
    ratio = abs(row.difference) / row.threshold if row.threshold > 0 else LIMIT
    worse = (row.difference > 0) == (row.better == "lower")
    return min(ratio, LIMIT) * (1 if worse else -1)


def _label(row: MetricDiff) -> str:
    change = f" {shorten(visible(row.difference_text), 20)}" if row.difference_text else ""
    noise = " (noise)" if is_noise(row) else ""
    return f"{shorten(visible(row.title), 28)}{change}  {name_verdict(row.verdict)}{noise}"
