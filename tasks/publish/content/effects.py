"""Computes where the page draws the effects (relative changes) of metrics and their intervals, on one common scale."""

from collections.abc import Sequence

from configs.schema import Frozen
from tasks.diff.next_step import has_scale
from tasks.records import MetricDiff

WIDTH = 150.0  # px of an axis, whose middle is no change
MARGIN = 4.0  # px on either side, so that a point at the edge is not cut off
MIN_REACH, MAX_REACH = (
    3.0,
    30.0,
)  # bounds of the effect at an end of the axis, in thresholds; larger effects are drawn there


class EffectLine(Frozen):
    """A drawn effect. Coordinates are in px from the left; right is worse."""

    low: float | None  # ends of the interval; None if unknown
    high: float | None
    point: float  # the effect
    ends: tuple[str, str]  # labels at the left and the right end of the axis
    words: str  # legend
    band: tuple[float, float]  # ends of the band of changes within the threshold
    width: float = WIDTH


def draw_effects(rows: Sequence[MetricDiff]) -> dict[str, EffectLine]:
    """Return metric → drawn effect, for the rows with an effect, a threshold, a baseline and a better direction."""
    drawn = [row for row in rows if has_scale(row)]
    furthest = max((abs(end) / _threshold(row) for row in drawn for end in _effect_and_ends(row)), default=0.0)
    reach = min(max(MIN_REACH, furthest), MAX_REACH)
    return {row.metric: _draw(row, reach) for row in drawn}


def _effect_and_ends(row: MetricDiff) -> list[float]:
    """Return the effect, and the ends of its interval if known."""
    return [end for end in (row.effect, row.effect_low, row.effect_high) if end is not None]


def _threshold(row: MetricDiff) -> float:
    """Return the threshold as a share of the baseline, like the effect."""
    assert row.threshold is not None
    assert row.baseline is not None
    return row.threshold / abs(row.baseline)


def _draw(row: MetricDiff, reach: float) -> EffectLine:
    threshold = _threshold(row)
    sign = 1 if row.better == "lower" else -1

    def place(effect: float) -> float:
        share = max(-1.0, min(1.0, sign * effect / threshold / reach))
        return round(WIDTH / 2 + (WIDTH / 2 - MARGIN) * share, 1)

    effect, *interval = _effect_and_ends(row)
    ends = sorted(map(place, interval)) if len(interval) == 2 else (None, None)
    furthest = 100 * sign * threshold * reach  # the change at the right end, in percent
    digits = ".0f" if abs(furthest) >= 100 else ".2g"  # no exponent
    return EffectLine(
        low=ends[0],
        high=ends[1],
        point=place(effect),
        ends=(f"{-furthest:+{digits}} %", f"{furthest:+{digits}} % worse →"),
        words=f"the threshold, in grey, is ±{100 * threshold:.2g} %; worse is right",
        band=(min(place(-threshold), place(threshold)), max(place(-threshold), place(threshold))),
    )
