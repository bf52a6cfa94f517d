"""Draws the effects (changes of step time) of several comparisons below each other, on one scale.

Such a drawing is called a forest plot: a point for each effect, a line for its 99 % interval, and behind them a band
of the changes that the threshold allows. Left is faster, right is slower.
"""

import math
from collections.abc import Sequence

from configs.schema import Frozen
from tasks.publish.site.index import IndexedComparison

WIDTH = 280.0  # px
MARGIN = 6.0  # px on either side of the axis
MIN_REACH, MAX_REACH = 0.05, 0.5  # bounds of the change at an end of the axis; larger changes are drawn there
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # distances between two ticks to choose from


class AxisTick(Frozen):
    """A labelled position on the axis."""

    x: float  # px from the left
    label: str


class DrawnEffect(Frozen):
    """A drawn effect. Coordinates are in px from the left."""

    point: float
    interval: tuple[float, float] | None  # None if unknown
    band: tuple[float, float]  # x and width of the band of allowed changes; of no width if unknown
    beyond: str  # "→" or "←" if the effect lies beyond an end of the axis; else empty
    words: str  # the effect with its interval


class Forest(Frozen):
    """The effects of all drawn comparisons."""

    ticks: tuple[AxisTick, ...]
    effects: dict[tuple[str, str, str], DrawnEffect]  # by `IndexedComparison.key`, if a comparison has an effect
    width: float = WIDTH


def draw_forest(results: Sequence[IndexedComparison]) -> Forest:
    """Return where the effects of these results are drawn; without ticks if none has an effect."""
    effects = {item.key: item.effect for item in results if item.effect is not None and not item.died}
    drawn = [item for item in results if item.key in effects]
    # an interval may be much wider than every effect: it is cut off at the ends of the axis
    reach = min(max(MIN_REACH, *(1.3 * abs(effects[item.key]) for item in drawn), 0.0), MAX_REACH)
    between = next((distance for distance in TICKS if 3 * distance >= reach), TICKS[-1])
    count = math.floor(reach / between) if drawn else -1

    def place(change: float) -> float:
        share = max(-1.0, min(1.0, change / reach))
        return round(WIDTH / 2 + (WIDTH / 2 - MARGIN) * share, 1)

    ticks = [n * between for n in range(-count, count + 1)]
    return Forest(
        ticks=tuple(AxisTick(x=place(tick), label=f"{100 * tick:+.0f} %" if tick else "0") for tick in ticks),
        effects={
            item.key: DrawnEffect(
                point=place(effects[item.key]),
                interval=(place(item.interval[0]), place(item.interval[1])) if item.interval else None,
                band=(place(-(item.allowed or 0)), round(place(item.allowed or 0) - place(-(item.allowed or 0)), 1)),
                beyond="" if abs(effects[item.key]) <= reach else "→" if effects[item.key] > 0 else "←",
                words=_describe(effects[item.key], item.interval),
            )
            for item in drawn
        },
    )


def _describe(effect: float, interval: tuple[float, float] | None) -> str:
    return f"{_percent(effect)} %" + (f" ({_percent(interval[0])} … {_percent(interval[1])})" if interval else "")


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}" if abs(share) >= 0.0005 else "0"
