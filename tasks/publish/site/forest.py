"""Draws the effects (changes of step time) of several comparisons below each other, on one scale.

Such a drawing is called a forest plot: a point for each effect, a line for its 99 % interval, and behind them a band
of the changes that the threshold allows. Left is faster, right is slower.
"""

import math
from collections.abc import Sequence

from configs.frozen import Frozen
from tasks.publish.content.effects import DrawnEffect, draw_effect, place_change
from tasks.publish.site.index import IndexedComparison

WIDTH = 120.0  # px
MIN_REACH, MAX_REACH = 0.05, 0.5  # bounds of the change at an end of the axis; larger changes are drawn there
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # distances between two ticks to choose from


class Forest(Frozen):
    """The effects of all drawn comparisons."""

    ticks: tuple[tuple[float, str], ...]  # px from the left, label
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

    def draw(item: IndexedComparison) -> DrawnEffect:
        effect = effects[item.key]
        words = _describe(effect, item.interval)
        drawn = draw_effect(effect, item.interval or (), item.allowed or 0.0, reach, width=WIDTH, words=words)
        beyond = "" if abs(effect) <= reach else "→" if effect > 0 else "←"
        return drawn.replace(beyond=beyond)

    return Forest(
        ticks=tuple(
            (place_change(tick, reach, WIDTH), f"{100 * tick:+.0f} %" if tick else "0")
            for tick in (n * between for n in range(-count, count + 1))
        ),
        effects={item.key: draw(item) for item in drawn},
    )


def _describe(effect: float, interval: tuple[float, float] | None) -> str:
    return f"{_percent(effect)} %" + (f" ({_percent(interval[0])} … {_percent(interval[1])})" if interval else "")


def _percent(share: float) -> str:
    return f"{100 * share:+.1f}" if abs(share) >= 0.0005 else "0"
