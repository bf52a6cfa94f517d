"""Draws what shows a verdict at the top of the page: the judged curve or, without one, bars.

An arm is one of the two compared versions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite

from configs.frozen import Frozen
from tasks.diff.judge.next_step import PER_STEP, find_deciding_row
from tasks.metrics.time_metrics import STEP_TIME
from tasks.publish.content.brief import CURVES
from tasks.publish.content.row_values import show_sides
from tasks.publish.content.verdict_words import outcome_of, sides_of
from tasks.records.compared_case import ComparisonRecord, Curve, MetricDiff
from tasks.records.explanation import TimeExplanation
from tasks.records.text import shorten, show_number, visible

WIDTH, HEIGHT = 1000, 120  # of the drawing, in its own units
STRETCHES = 300  # a longer curve has the extremes of this many parts
LEAST_POINTS = 4
ALIKE = 0.05  # curves that are nearer to each other than this share of their range are drawn as their difference
MAX_BARS, MAX_LABEL = 4, 60  # bars of operations; characters of their names
LEAST_APART = 0.03  # share of the longer bar; of two bars that differ by less, nothing is seen
LEAST_S = 1e-5  # smallest rest of a step that is shown
# memory that an allocator or a compiler wanted, and that it found; a unit is as the log prints it
MEMORY = re.compile(r"(?:allocate|Used) ([\d.]+)([KMGT])i?B?\b.*?(?:are|of) ([\d.]+)([KMGT])i?B? (free|hbm)", re.DOTALL)


type Points = list[tuple[int, float]]


class Picture(Frozen):
    """Curves over the steps; coordinates are in a box of WIDTH × HEIGHT."""

    title: str
    lines: tuple[tuple[str, str], ...]  # side, data of an SVG path; one per run
    ends: tuple[str, str]  # labels of the lower and the upper end of the y axis
    steps: tuple[int, int]  # first and last step


class Bar(Frozen):
    """A value as a bar."""

    label: str  # "baseline", "candidate", or the name of the value
    words: str  # the value
    width: float  # in percent of the longest bar
    part: str = "compute"  # decides the colour


class Bars(Frozen):
    """Values below each other, on one scale."""

    title: str
    bars: tuple[Bar, ...]


def draw_picture(record: ComparisonRecord) -> Picture | None:
    """Return the curve with the deciding row's judged values; None if there is none, or a profile shows more."""
    row = _find_shown_row(record)
    if row is None or _find_profile(record, row) is not None:
        return None
    metric = CURVES.get(row.metric, row.metric)
    curves = [(curve, list(_points(record, curve))) for curve in record.curves if curve.metric == metric]
    points = [point for _, some in curves for point in some]
    if len(points) < LEAST_POINTS:
        return None
    apart = _subtract(curves, record.baseline.name)
    if apart and not any(value for _, value in apart):
        return None  # equal curves show nothing
    if metric != STEP_TIME.curve and apart and max(abs(value) for _, value in apart) < ALIKE * _range(points):
        zero = [(apart[0][0], 0.0), (apart[-1][0], 0.0)]  # the baseline's own difference
        curves = [(_first_of(curves, record.baseline.name), zero), (_first_of(curves, record.candidate.name), apart)]
        points, metric = [*apart, *zero], f"{metric}: candidate − baseline"
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
            (sides[curve.arm], "M" + "L".join(map(place, _thin(some))))
            for curve, some in curves
            if some and curve.arm in sides
        ),
        ends=(f"{show_number(low * scale)}{unit}", f"{show_number(high * scale)}{unit}"),
        steps=(first, last),
    )


def draw_bars(record: ComparisonRecord) -> Bars | None:
    """Return bars for a record without a curve (`draw_picture`); None if there is nothing to show.

    After a death: the memory that was lacking, or the steps of each arm. Else: where the time went, if it was profiled,
    or both values of the deciding row.
    """
    if record.has_died:
        return _draw_memory(record) or _draw_steps(record)
    row = _find_shown_row(record)
    if row is None:
        return None
    if profile := _find_profile(record, row):
        return _draw_profile(profile)
    if not row.baseline or not row.candidate or min(row.baseline, row.candidate) < 0:
        return None
    if is_alike(row.baseline, row.candidate):
        return None
    left, right = show_sides(row)
    values = (("baseline", left, row.baseline, "compute"), ("candidate", right, row.candidate, "compute"))
    return Bars(title=visible(row.title), bars=_scale(values))


def is_alike(left: float, right: float) -> bool:
    """Return whether the bars of two values look the same, so that they show nothing."""
    return abs(left - right) <= LEAST_APART * max(left, right)


def _find_shown_row(record: ComparisonRecord) -> MetricDiff | None:
    """Return the deciding row if its values may be drawn: not for *same*, and not for arms that cannot be compared."""
    blocked = any(finding.effect == "blocks" for finding in record.findings)
    return None if blocked or outcome_of(record) in ("same", "died") else find_deciding_row(record)


def _find_profile(record: ComparisonRecord, row: MetricDiff) -> TimeExplanation | None:
    """Return the profiled times of the operations, if the row is about time and some of them surely differ."""
    time = record.explanation.time if record.explanation is not None and row.metric in PER_STEP else None
    return time if time is not None and any(one.sure for one in time.differences) else None


def _draw_profile(time: TimeExplanation) -> Bars:
    """Return the operations with the largest differences, and the rest of the step's difference."""
    grown = [(one, one.candidate_s - one.baseline_s) for one in time.differences if one.sure]
    grown = sorted(grown, key=lambda pair: -abs(pair[1]))[:MAX_BARS]
    named = []
    for one, by in grown:
        line = one.candidate_line or one.baseline_line
        named.append((f"{one.what} {line.place}" if line else one.what, by))
    rest = time.step_s[1] - time.step_s[0] - sum(by for _, by in named)
    named += [("everything else", rest)] if abs(rest) >= LEAST_S else []
    return Bars(
        title="where the time went: candidate − baseline, per profiled step",
        bars=_scale(
            (shorten(visible(name), MAX_LABEL), f"{1e3 * by:+.2f} ms", abs(by), "restart" if by > 0 else "checkpoint")
            for name, by in named
        ),
    )


def _draw_memory(record: ComparisonRecord) -> Bars | None:
    """Return the memory that the first arm without enough of it wanted and found; None if its log does not tell."""
    causes = (arm.cause_of_death for _, arm in sides_of(record))
    told = (f"{cause.message} {cause.detail}" for cause in causes if cause is not None and cause.kind == "device_oom")
    found = next(filter(None, map(MEMORY.search, told)), None)
    if found is None:
        return None
    wanted, unit, room, room_unit, kind = found.groups()
    sizes = [float(size) * 1024.0 ** "KMGT".index(letter) for size, letter in ((wanted, unit), (room, room_unit))]
    names = ("asked for", "free") if kind == "free" else ("needed", "on the device")
    return Bars(
        title="memory of the device",
        bars=_scale(
            (name, f"{size} {letter}iB", bytes_, part)
            for name, size, letter, bytes_, part in zip(
                names, (wanted, room), (unit, room_unit), sizes, ("restart", "compute"), strict=True
            )
        ),
    )


def _draw_steps(record: ComparisonRecord) -> Bars | None:
    made = [
        (side, max((len(curve.steps) for curve in record.curves if curve.arm == arm.name), default=0), arm.has_died)
        for side, arm in sides_of(record)
    ]
    (_, left, _), (_, right, _) = made
    if is_alike(left, right):  # also if both ended before their first step, or nothing was trained
        return None
    bars = _scale((side, f"{steps:,} steps", steps, "restart" if died else "compute") for side, steps, died in made)
    return Bars(title="steps before the end", bars=bars)


def _scale(values: Iterable[tuple[str, str, float, str]]) -> tuple[Bar, ...]:
    """Return bars for (label, words, size, part). At least one size is above 0."""
    known = list(values)
    most = max(size for _, _, size, _ in known)
    return tuple(
        Bar(label=label, words=words, width=round(100 * size / most, 1), part=part)
        for label, words, size, part in known
    )


def _subtract(curves: Sequence[tuple[Curve, Points]], baseline: str) -> Points:
    """Return the first candidate curve less the first baseline curve, at their common steps."""
    left, right = (next((some for c, some in curves if (c.arm == baseline) is side), []) for side in (True, False))
    known = dict(left)
    return [(step, value - known[step]) for step, value in right if step in known]


def _first_of(curves: Sequence[tuple[Curve, Points]], arm: str) -> Curve:
    return next(curve for curve, _ in curves if curve.arm == arm)


def _range(points: Points) -> float:
    values = [value for _, value in points]
    return max(values) - min(values)


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
