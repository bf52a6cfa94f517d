"""Computes the coordinates of a bisection's drawing: each point's level with its interval, and a bar of its chance."""

from dataclasses import dataclass
from typing import Literal

from tasks.records import BisectedPoint, Bisection

WIDTH, HEIGHT = 960.0, 180.0  # px, as all lengths here; of the part with the levels
LEFT = 88.0  # for the labels of levels
STRIP = HEIGHT + 24  # y of the points without a level
CHANCES, HIGHEST = STRIP + 20, 36.0  # y of the bars' part, and height of a bar of chance 1
TOTAL = CHANCES + HIGHEST + 4
MARGIN = 0.06  # above and below the levels, as a share of their range
LEAST_CHANCE = 0.005  # smaller chances have no bar

type Kind = Literal["culprit", "ruled", "good", "bad", "between", "unknown", "skipped", "open"]
type Rule = tuple[float, str]  # y and label of a horizontal line


@dataclass(frozen=True)
class DrawnPoint:
    """A point and its coordinates in px; None for absent values."""

    point: BisectedPoint
    kind: Kind
    suspect: bool
    x: float
    y: float
    low: float | None  # y of the ends of the level's interval
    high: float | None
    chance: float | None  # height of its bar


def draw_points(record: Bisection) -> tuple[list[DrawnPoint], list[Rule]]:
    """Return every point, and the lines at the levels of the good and the bad point.

    The level of the good point is 0. If the metric is no time, points like good get level 0 and points like bad level
    1. Points without a level are drawn below, at STRIP.
    """
    measured = any(point.level is not None for point in record.points)
    levels = [_level(record, number, measured) for number in range(len(record.points))]
    values = [*levels, *(value for point in record.points for value in (point.low, point.high))]
    shown = [0.0, *(value for value in values if value is not None and abs(value) <= 1)]
    margin = MARGIN * (max(shown) - min(shown)) or 1.0
    bottom, top = min(shown) - margin, max(shown) + margin

    def place(level: float) -> float:
        return round(HEIGHT - HEIGHT * (min(max(level, bottom), top) - bottom) / (top - bottom), 1)

    def draw(number: int, point: BisectedPoint, level: float | None) -> DrawnPoint:
        kind: Kind = "ruled" if point.ruled_out and not point.runs else point.mark or "open"
        is_known = point.low is not None and point.high is not None
        return DrawnPoint(
            point=point,
            kind="culprit" if number == record.culprit else kind,
            suspect=number in record.suspects,
            x=round(LEFT + (WIDTH - LEFT) / len(record.points) * (number + 0.5), 1),
            y=STRIP if level is None else place(level),
            low=place(point.low or 0.0) if is_known else None,
            high=place(point.high or 0.0) if is_known else None,
            chance=round(HIGHEST * point.chance, 1) if point.chance >= LEAST_CHANCE else None,
        )

    if measured:
        bad = record.points[-1].level
        rules = [(0.0, "good")] if bad is None else [(0.0, "good"), (bad, f"{100 * bad:+.1f} %")]
    else:
        rules = [(0.0, "like good"), *([(1.0, "like bad")] if 1.0 in levels else [])]
    drawn = [draw(number, *pair) for number, pair in enumerate(zip(record.points, levels, strict=True))]
    return drawn, [(place(level), label) for level, label in rules]


def _level(record: Bisection, number: int, measured: bool) -> float | None:
    point = record.points[number]
    if measured or record.metric == "":
        return 0.0 if number == 0 else point.level
    if number == record.culprit or point.mark in ("bad", "between"):
        return 1.0
    return 0.0 if point.mark == "good" else None
