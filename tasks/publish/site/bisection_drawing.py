"""Turns the points of a bisection into the places of a drawing: levels with intervals, and the chance of each point."""

from collections.abc import Iterator
from typing import Literal

from configs.schema import Frozen
from tasks.records import BisectedPoint, Bisection

WIDTH, HEIGHT = 960.0, 180.0  # of the levels
LEFT = 88.0  # for their labels
STRIP = HEIGHT + 24  # where the points without a level are
CHANCES, HIGHEST = STRIP + 20, 36.0  # upper end and height of the bars
TOTAL = CHANCES + HIGHEST + 4
MARGIN = 0.06  # of the range of levels, above and below
LEAST_CHANCE = 0.005  # of a bar

type Kind = Literal["culprit", "ruled", "good", "bad", "between", "unknown", "skipped", "open"]


class DrawnPoint(Frozen):
    """A point and its places in the drawing; None for absent values."""

    point: BisectedPoint
    kind: Kind
    suspect: bool
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None  # height of its bar


class Rule(Frozen):
    """A horizontal line with its label."""

    y: float
    label: str


def draw_points(record: Bisection) -> Iterator[DrawnPoint]:
    """Yield every point. Points without a level are below the levels, unless their mark says which end they are like.

    The good end is the level 0. A metric without levels has two of them: like good, and like bad.
    """
    reach, step = _reach(record), (WIDTH - LEFT) / len(record.points)
    for number, point in enumerate(record.points):
        level = _level(record, number)
        known = point.low is not None and point.high is not None
        kind: Kind = "ruled" if point.ruled_out and not point.runs else point.mark or "open"
        yield DrawnPoint(
            point=point,
            kind="culprit" if number == record.culprit else kind,
            suspect=number in record.suspects,
            x=round(LEFT + step * (number + 0.5), 1),
            y=STRIP if level is None else _place(level, reach),
            low=_place(point.low or 0.0, reach) if known else None,
            high=_place(point.high or 0.0, reach) if known else None,
            chance=round(HIGHEST * point.chance, 1) if point.chance >= LEAST_CHANCE else None,
        )


def draw_rules(record: Bisection) -> list[Rule]:
    """Return the lines at the levels of good and bad."""
    reach = _reach(record)
    if not _has_levels(record):
        ends = [Rule(y=_place(0.0, reach), label="like good")]
        return [*ends, Rule(y=_place(1.0, reach), label="like bad")] if _reach(record)[1] > 1 else ends
    bad = record.points[-1].level
    rules = [Rule(y=_place(0.0, reach), label="good")]
    return rules if bad is None else [*rules, Rule(y=_place(bad, reach), label=f"{100 * bad:+.1f} %")]


def _has_levels(record: Bisection) -> bool:
    return any(point.level is not None for point in record.points)


def _level(record: Bisection, number: int) -> float | None:
    point = record.points[number]
    if _has_levels(record) or record.metric == "":
        return 0.0 if number == 0 else point.level
    if number == record.culprit or point.mark in ("bad", "between"):
        return 1.0
    return 0.0 if point.mark == "good" else None


def _reach(record: Bisection) -> tuple[float, float]:
    """Return the lowest and the highest level that are drawn."""
    ends = [value for point in record.points for value in (point.low, point.high, point.level) if value is not None]
    levels = [level for number in range(len(record.points)) if (level := _level(record, number)) is not None]
    ends = [value for value in (*ends, *levels) if abs(value) <= 1]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    more = MARGIN * (high - low) or 1.0
    return low - more, high + more


def _place(level: float, reach: tuple[float, float]) -> float:
    low, high = reach
    return round(HEIGHT - HEIGHT * (min(max(level, low), high) - low) / (high - low), 1)
