"""Finds the precision in which logs print a value, out of the values alone."""

from decimal import Decimal
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import NDArray

type Values = NDArray[np.float64]  # [runs, steps]

LEAST_DECIMALS = 3  # MaxText prints three; a log in which they all happen to end in 0 prints three too
MOST_DECIMALS = 15  # more are in no log


def shared_decimals(values: Values) -> int:
    """The decimals that every run prints: of a run, as many as the value that needs most."""
    return min((_decimals(row) for row in values), default=0)


def printed_units(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One unit of the last digit in which each of a log's values is printed, as far as the values tell.

    A value may end in zeros, which are not seen: those that are as large show how many decimals it has. Smaller ones
    may have more, where a log prints so many digits of each, or an exponent.
    """
    order = np.argsort(-np.abs(values), kind="stable")
    needed = np.array([_needed(float(values[at])) for at in order], dtype=np.float64)
    units = np.empty(values.size)
    units[order] = 10.0 ** -np.maximum.accumulate(needed) if values.size else units
    return units


def _needed(value: float) -> int:
    """Decimals that a value needs."""
    if value == 0 or not isfinite(value):
        return 0
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _decimals(row: NDArray[np.float64]) -> int:
    known = row[np.isfinite(row)]
    every = range(LEAST_DECIMALS, MOST_DECIMALS)
    return next((count for count in every if np.array_equal(np.round(known, count), known)), MOST_DECIMALS)


def last_digit(value: float, values: Values, decimals: int, *, exponents: bool) -> float:
    """One unit of the last printed digit of a value: of its decimals, or, where a log prints exponents, of its
    significant digits, which are as many as the value of all that needs most."""
    fixed = 10.0**-decimals
    if not exponents or not isfinite(value) or value == 0:
        return fixed
    digits = max(_digits(number) for number in np.unique(values[np.isfinite(values)]).tolist())
    return max(fixed, 10.0 ** (floor(log10(abs(value))) + 1 - digits))


def _digits(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


def round_to(values: Values, decimals: int) -> Values:
    """The values as a log with this many decimals would print them; rows that need no more stay as they are."""
    return np.stack([np.round(row, decimals) if _decimals(row) > decimals else row for row in values])
