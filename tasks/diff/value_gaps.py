"""Finds the steps at which runs have different values, and the distance between the values of two arms."""

from math import inf

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.printed import Values


def varies_at(values: Values, *, exact: bool) -> NDArray[np.bool_]:
    """Return, per step, whether the runs differ. values: [runs, steps]. NaN equals NaN; if `exact`, 0.0 is not -0.0."""
    first = values[:1]
    if exact:
        # gives all NaNs the same bits, which otherwise depend on the hardware
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return np.asarray((bits != bits[:1]).any(axis=0))
    return np.asarray(~((values == first) | (np.isnan(values) & np.isnan(first))).all(axis=0))


def gaps_between(sides: tuple[Values, Values]) -> Values:
    """Return the distance between the nearest values of two arms at each step. sides: [runs, steps] of each.

    0 where the finite ranges overlap, or both arms have NaN or the same infinity; else inf where a value is not finite.
    """
    finite = [np.isfinite(side) for side in sides]
    low = [np.where(known, side, inf).min(axis=0) for side, known in zip(sides, finite, strict=True)]
    high = [np.where(known, side, -inf).max(axis=0) for side, known in zip(sides, finite, strict=True)]
    with np.errstate(invalid="ignore"):
        apart = np.maximum(np.maximum(low[1] - high[0], low[0] - high[1]), 0.0)
    numbers = finite[0].any(axis=0) & finite[1].any(axis=0)
    shared = np.zeros(numbers.shape, dtype=bool)
    for is_kind in (np.isnan, np.isposinf, np.isneginf):
        shared |= is_kind(sides[0]).any(axis=0) & is_kind(sides[1]).any(axis=0)
    pure = finite[0].all(axis=0) & finite[1].all(axis=0)
    return np.where(pure, apart, np.where(shared | (numbers & (apart == 0)), 0.0, inf))


def nearest_at(sides: tuple[Values, Values], index: int) -> tuple[float, float]:
    """Return the two values, one of each arm, that are nearest to each other at the step with this index."""
    left, right = (side[:, index] for side in sides)
    with np.errstate(invalid="ignore"):
        distance = np.nan_to_num(np.abs(left[:, None] - right[None, :]), nan=inf, posinf=inf)
    row, column = np.unravel_index(int(np.argmin(distance)), distance.shape)
    return float(left[row]), float(right[column])
