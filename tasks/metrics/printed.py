"""Finds the precision of printed values from the values alone, and rounds values to it."""

from decimal import Decimal
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import NDArray

type Values = NDArray[np.float64]  # [runs, steps]

MIN_DECIMALS = 3  # least number of decimals of a run: MaxText prints three, even if all values end in 0
MAX_DECIMALS = 15  # no log prints more decimals


def shared_decimals(values: Values) -> int:
    """Return the number of decimals of the run with the fewest, at least MIN_DECIMALS; 0 without runs.

    A run has as many decimals as its value with the most.
    """
    return min((_decimals(row) for row in values), default=0)


def printed_units(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the unit of the last printed digit of each of a log's values, estimated from the values alone.

    Trailing zeros are lost, so a value gets the largest number of decimals of all values that are at least as large.
    Decimals of smaller values do not count, because a log may print significant digits or exponents.
    """
    order = np.argsort(-np.abs(values), kind="stable")
    needed = np.array([_needed(float(values[at])) for at in order], dtype=np.float64)
    units = np.empty(values.size)
    units[order] = 10.0 ** -np.maximum.accumulate(needed) if values.size else units
    return units


def _needed(value: float) -> int:
    """Return the number of decimals of a value; 0 for NaN and infinities."""
    if value == 0 or not isfinite(value):
        return 0
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _decimals(row: NDArray[np.float64]) -> int:
    known = row[np.isfinite(row)]
    every = range(MIN_DECIMALS, MAX_DECIMALS)
    return next((count for count in every if np.array_equal(np.round(known, count), known)), MAX_DECIMALS)


def last_digit(value: float, values: Values, decimals: int, *, exponents: bool) -> float:
    """Return one unit of a value's last printed digit: 10 to the power of −`decimals`.

    With `exponents`, the log prints equally many significant digits of each value: as many as the longest of `values`
    has. The larger of the two units is returned.
    """
    fixed = 10.0**-decimals
    if not exponents or not isfinite(value) or value == 0:
        return fixed
    digits = max(_digits(number) for number in np.unique(values[np.isfinite(values)]).tolist())
    return max(fixed, 10.0 ** (floor(log10(abs(value))) + 1 - digits))


def _digits(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits)


def round_to(values: Values, decimals: int) -> Values:
    """Return the values, rounded to `decimals` decimals in each run that has more."""
    return np.stack([np.round(row, decimals) if _decimals(row) > decimals else row for row in values])
