"""Turns the judged rows of a table into the places of their effects and intervals on one scale."""

from collections.abc import Sequence

from configs.schema import Frozen
from tasks.records import MetricDiff

WIDTH = 150.0  # px; its middle is no change
MARGIN = 4.0  # px on either side, so that a point at the edge is whole
LEAST, MOST = 3.0, 12.0  # thresholds up to the edges: the band is always seen, and what goes further ends there


class EffectLine(Frozen):
    """The places of an effect and its interval, in px from the left, worse to the right; null if unknown."""

    low: float | None
    high: float | None
    point: float
    ends: tuple[str, str]  # the axis, at its left and its right
    words: str
    band: tuple[float, float]
    width: float = WIDTH


def draw_effects(rows: Sequence[MetricDiff]) -> dict[str, EffectLine]:
    """Return the drawn effects by metric, of the rows with a threshold, a direction and an effect of their own."""
    drawn = [row for row in rows if row.effect is not None and row.threshold and row.baseline and row.better != "equal"]
    furthest = max((abs(end) / _threshold(row) for row in drawn for end in _ends(row)), default=0.0)
    reach = min(max(LEAST, furthest), MOST)
    return {row.metric: _draw(row, reach) for row in drawn}


def _ends(row: MetricDiff) -> list[float]:
    """Return the effect, and its interval if known."""
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

    effect, *interval = _ends(row)
    ends = sorted(map(place, interval)) if len(interval) == 2 else (None, None)
    furthest = 100 * sign * threshold * reach  # at the right, in percent
    return EffectLine(
        low=ends[0],
        high=ends[1],
        point=place(effect),
        ends=(f"{-furthest:+.2g} %", f"{furthest:+.2g} % worse →"),
        words=f"the threshold, in grey, is ±{100 * threshold:.2g} %; worse is right",
        band=(min(place(-threshold), place(threshold)), max(place(-threshold), place(threshold))),
    )
