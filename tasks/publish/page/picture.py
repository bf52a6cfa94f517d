"""Draws what shows a verdict at the top of the page: the curve that decides it, or how far each arm came."""

from collections.abc import Iterator, Sequence
from math import isfinite

from configs.schema import Frozen
from tasks.diff.next_step import find_deciding_row
from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.content.brief import CURVES, PER_STEP, show_number
from tasks.publish.content.verdict_words import outcome_of, sides_of
from tasks.records import ComparisonRecord, Curve

WIDTH, HEIGHT = 1000, 120  # of the drawing, in its own units
STRETCHES = 300  # a longer curve has the extremes of this many parts
LEAST_POINTS = 4


class CurveLine(Frozen):
    """The curve of one run, as data of an SVG path."""

    side: str
    path: str


class Picture(Frozen):
    """Curves over the steps; coordinates are in a box of WIDTH × HEIGHT."""

    title: str
    lines: tuple[CurveLine, ...]
    ends: tuple[str, str]  # labels of the lower and the upper end of the y axis
    steps: tuple[int, int]  # first and last step


class Reach(Frozen):
    """How far an arm came."""

    side: str
    steps: int
    share: float  # of the longer arm's steps
    died: bool


def draw_picture(record: ComparisonRecord) -> Picture | None:
    """Return the curve of the deciding row; None for *same*, after a death, or without a curve."""
    row = None if record.has_died else find_deciding_row(record)
    if row is None or outcome_of(record) == "same":
        return None
    metric = STEP_TIME.curve if row.metric in PER_STEP else CURVES.get(row.metric, row.metric)
    curves = [(curve, list(_points(record, curve))) for curve in record.curves if curve.metric == metric]
    points = [point for _, some in curves for point in some]
    if len(points) < LEAST_POINTS or any(finding.effect == "blocks" for finding in record.findings):
        return None
    steps, values = [step for step, _ in points], [value for _, value in points]
    first, last, low, high = min(steps), max(steps), min(values), max(values)
    room = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
    low, high = (0.0 if 0 <= low < high / 2 else low - room), high + room

    def place(point: tuple[int, float]) -> str:
        x = WIDTH * (point[0] - first) / max(1, last - first)
        return f"{x:.1f},{HEIGHT * (high - point[1]) / (high - low):.1f}"

    scale, unit = (
        (1e3, " ms") if metric == STEP_TIME.curve and high < 1 else (1.0, " s" if metric == STEP_TIME.curve else "")
    )
    sides = {arm.name: side for side, arm in sides_of(record)}
    name = "step time, without the first step and stalls" if metric == STEP_TIME.curve else metric.replace("_", " ")
    return Picture(
        title=name,
        lines=tuple(
            CurveLine(side=sides[curve.arm], path="M" + "L".join(map(place, _thin(some))))
            for curve, some in curves
            if some and curve.arm in sides
        ),
        ends=(f"{show_number(low * scale)}{unit}", f"{show_number(high * scale)}{unit}"),
        steps=(first, last),
    )


def draw_reach(record: ComparisonRecord) -> list[Reach]:
    """Return how many steps each arm made if one died; empty if none made any."""
    if not record.has_died:
        return []
    made = {
        arm.name: max((len(curve.steps) for curve in record.curves if curve.arm == arm.name), default=0)
        for _, arm in sides_of(record)
    }
    most = max(made.values())
    return [
        Reach(side=side, steps=made[arm.name], share=made[arm.name] / most, died=arm.has_died)
        for side, arm in sides_of(record)
        if most
    ]


def _points(record: ComparisonRecord, curve: Curve) -> Iterator[tuple[int, float]]:
    timed = curve.metric == STEP_TIME.curve
    left_out = {stall.step for stall in record.stalls.get(curve.arm, ())} | set(curve.steps[:1]) if timed else set()
    for step, value in zip(curve.steps, curve.values, strict=True):
        if value is not None and isfinite(value) and step not in left_out:
            yield step, value


def _thin(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the points, or the lowest and the highest of each of STRETCHES parts, in order."""
    if len(points) <= 2 * STRETCHES:
        return list(points)
    size = -(-len(points) // STRETCHES)
    parts = [points[at : at + size] for at in range(0, len(points), size)]
    ends = [{min(part, key=lambda one: one[1]), max(part, key=lambda one: one[1])} for part in parts]
    return [point for part in ends for point in sorted(part)]
