"""Refines the printed seconds of steps by the tokens per second of the same line, which have three more digits."""

import numpy as np
from numpy.typing import NDArray

from tasks.metrics.printed import shared_decimals

PRINTED_UNIT_S = 0.001  # every dialect prints milliseconds or finer
FEWEST = 2  # least number of lines: a single line cannot show a contradiction

type Values = NDArray[np.float64]


def refine_seconds(seconds: Values, rate: Values) -> tuple[Values, float]:
    """Return the refined seconds, and the unit of their last digit in seconds. Missing values are NaN.

    `seconds: 0.071` is any time from 0.0705 to 0.0715; `Tokens/s/device: 1812.056` gives the same step to six digits if
    the number of tokens per step is known. Each line bounds that number, a long step most narrowly. If the bounds of
    two lines exclude each other, the seconds are returned as printed.
    """
    known = np.isfinite(seconds) & np.isfinite(rate) & (seconds > 0) & (rate > 0)
    tokens = tokens_of(seconds[known], rate[known]) if known.sum() >= FEWEST else None
    if tokens is None:
        return seconds, PRINTED_UNIT_S
    quick = float(np.median(rate[known]))
    unit = min(PRINTED_UNIT_S, tokens * 10.0 ** -shared_decimals(rate[known][None]) / quick**2)
    return np.where(known, tokens / np.where(known, rate, 1.0), seconds), unit


def tokens_of(seconds: Values, rate: Values) -> float | None:
    """Return the tokens per step and device: seconds × rate, equal at all steps; None if no number fits all steps."""
    halves = [10.0 ** -shared_decimals(values[None]) / 2 for values in (seconds, rate)]
    low = float(np.max(np.maximum(seconds - halves[0], 0) * np.maximum(rate - halves[1], 0)))
    high = float(np.min((seconds + halves[0]) * (rate + halves[1])))
    if low > high:
        return None
    whole = np.ceil(low)
    return float(whole) if whole <= high and whole + 1 > high else (low + high) / 2
