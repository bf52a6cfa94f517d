"""Turns a judged row into the places of its effect and interval on a scale that all rows of a table share."""

from configs.schema import Frozen
from tasks.records import MetricDiff

WIDTH = 150.0  # px; its middle is no change
REACH = 3.0  # thresholds at the edges: what goes further ends there


class EffectLine(Frozen):
    """In px from the left, worse to the right. `low` and `high` are null where the interval is not known."""

    low: float | None
    high: float | None
    point: float
    words: str
    band: tuple[float, float] = (WIDTH / 2 * (1 - 1 / REACH), WIDTH / 2 * (1 + 1 / REACH))
    width: float = WIDTH


def draw_effect(row: MetricDiff) -> EffectLine | None:
    """The row's effect against its threshold; None without a threshold, a direction or an effect of its own."""
    if row.effect is None or not row.threshold or not row.baseline or row.better == "equal":
        return None
    sign = 1 if row.better == "lower" else -1
    threshold = row.threshold / abs(row.baseline)

    def place(effect: float) -> float:
        times = max(-REACH, min(REACH, sign * effect / threshold))
        return round(WIDTH / 2 * (1 + times / REACH), 1)

    ends = (
        None if row.effect_low is None or row.effect_high is None else (place(row.effect_low), place(row.effect_high))
    )
    text = f"{100 * row.effect:+.2g} %"
    if row.effect_low is not None and row.effect_high is not None:
        text += f", from {100 * row.effect_low:+.2g} to {100 * row.effect_high:+.2g} %"
    return EffectLine(
        low=min(ends) if ends else None,
        high=max(ends) if ends else None,
        point=place(row.effect),
        words=f"{text}; the grey band is ±{100 * threshold:.2g} %, worse is right",
    )
