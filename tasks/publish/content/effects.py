"""Computes where effects (relative changes) with their 99 % intervals are drawn on an axis whose middle is no change.

The page draws the effects of a comparison's metrics, worse to the right. The front page draws the step time of several
comparisons below each other on one scale (`tasks/publish/site/forest.py`).
"""

from collections.abc import Sequence

from configs.frozen import Frozen
from tasks.diff.judge.next_step import has_scale
from tasks.publish.content.verdict_words import threshold_text
from tasks.records.compared_case import MetricDiff

WIDTH = 150.0  # px of a metric's axis
MARGIN = 4.0  # px on either side, so that a point at the edge is not cut off
MIN_REACH, MAX_REACH = 3.0, 30.0  # bounds of the effect at an end of a metric's axis, in thresholds


class DrawnEffect(Frozen):
    """A drawn effect. Coordinates are in px from the left."""

    point: float
    interval: tuple[float, float] | None  # None if unknown
    band: tuple[float, float]  # x and width of the band of allowed changes; of no width if unknown
    words: str  # tooltip
    width: float  # of the axis
    ends: tuple[str, str] = ("", "")  # labels below the left and the right end of the axis
    beyond: str = ""  # "→" or "←" if the effect lies beyond an end of the axis and this is shown; else empty


def place_change(change: float, reach: float, width: float) -> float:
    """Return x of a change on an axis that ends at ±`reach`. A change beyond an end is drawn there."""
    return round(width / 2 + (width / 2 - MARGIN) * max(-1.0, min(1.0, change / reach)), 1)


def draw_effect(
    effect: float, interval: Sequence[float | None], allowed: float, reach: float, *, width: float, words: str
) -> DrawnEffect:
    """Return where an effect is drawn. interval: its two ends; empty or None: unknown. allowed: the threshold."""
    known = [place_change(end, reach, width) for end in interval if end is not None]
    left, right = (place_change(end, reach, width) for end in (-allowed, allowed))
    return DrawnEffect(
        point=place_change(effect, reach, width),
        interval=(min(known), max(known)) if len(known) == 2 else None,
        band=(left, round(right - left, 1)),
        words=words,
        width=width,
    )


def draw_effects(rows: Sequence[MetricDiff]) -> dict[str, DrawnEffect]:
    """Return metric → drawn effect, for the rows with an effect, a threshold, a baseline and a better direction.

    All axes have the same length in thresholds.
    """
    drawn = {row: _changes(row) for row in rows if has_scale(row)}
    furthest = max((abs(change) for changes in drawn.values() for change in changes), default=0.0)
    reach = min(max(MIN_REACH, furthest), MAX_REACH)
    return {row.metric: _draw(row, changes, reach) for row, changes in drawn.items()}


def _threshold(row: MetricDiff) -> float:
    """Return the threshold as a share of the baseline, like the effect; its sign is that of a change for the worse."""
    assert row.threshold is not None
    assert row.baseline is not None
    return row.threshold / abs(row.baseline) * (1 if row.better == "lower" else -1)


def _changes(row: MetricDiff) -> list[float]:
    """Return the effect, and the ends of its interval if known, in thresholds for the worse."""
    ends = (row.effect, row.effect_low, row.effect_high)
    return [end / _threshold(row) for end in ends if end is not None]


def _draw(row: MetricDiff, changes: Sequence[float], reach: float) -> DrawnEffect:
    allowed = 100 * abs(_threshold(row))
    percent = f"±{allowed:{'.0f' if allowed >= 100 else '.2g'}} %"  # no exponent
    # a share of the judged steps' time, of which the shown baseline may be another mean
    percent = threshold_text(row) if threshold_text(row).endswith("%") else percent
    shown, words = f"{percent} allowed", f"the threshold, in grey, is {percent}; worse is right"
    drawn = draw_effect(changes[0], changes[1:], 1.0, reach, width=WIDTH, words=words)
    return drawn.replace(ends=(shown, "worse →"))
