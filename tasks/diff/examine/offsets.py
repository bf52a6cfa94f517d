"""Finds out whether two curves differ by an offset, by rounding, or by chance."""

from math import comb

import numpy as np

from tasks.diff.examine.parity import MetricParity
from tasks.metrics.printed import Values

ROUNDING = 1e-9  # relative slack: in binary, the difference of two decimal numbers is not exact


AT_ONCE = 5e-5  # relative to the value: a larger first difference of precise values is not a rounding difference


SAME_GAP = 1e-6  # relative to the largest value: gaps that differ by less count as equal


MOVED = 0.25  # largest change of an offset after its first step, relative to its first gap; random gaps change more


MIN_OFFSET_STEPS = 2  # fewest steps that show an offset


OFFSET_CHANCE = 0.001  # false alarm rate for random flips of the last digit; for random walks, up to ten times as high


DIGIT_STEPS = 10  # fewest steps of an offset of one printed unit; with fewer, up to 5 % of random walks look like one


def is_rounding(curves: MetricParity) -> bool:
    """Return whether the arms differ at some steps, but only by the rounding of printed values, without an offset."""
    differs = curves.parity.first is not None and not curves.varies
    return differs and is_one_digit(curves) and not is_offset(curves.sides, exact=curves.exact, unit=curves.unit)


def is_one_digit(curves: MetricParity) -> bool:
    return bool(curves.unit) and (curves.parity.largest_gap or 0.0) <= curves.unit * (1 + ROUNDING * 1e3)


def is_offset(sides: tuple[Values, Values], *, exact: bool, unit: float = 0.0) -> bool:
    """Return whether the curves differ, from one step on, by an offset that neither rounding nor chance explains.

    Only the first run of each arm is examined. Nondeterminism starts small and grows. In full precision (`exact`), a
    large first difference after equal steps is an offset. In printed values, single last digits flip before all steps
    differ. So an offset must be present at every step from the first difference on, in one direction, and about as
    large as at first. n random flips lie at exactly the last n steps, in one direction, with probability 2^(1 - n) ÷
    C(steps, n). Curves that differ from the first step on may have other random weights or data, unless the gap is the
    same at every step. unit: of the last printed digit, or 0.
    """
    gaps = sides[1][0] - sides[0][0]
    differs = np.flatnonzero(gaps)
    if not differs.size:
        return False
    first, later = int(differs[0]), gaps[differs[0] :]
    if exact and first > 0:
        return bool(abs(later[0]) >= AT_ONCE * abs(sides[0][0][first]))
    if first and later.size < DIGIT_STEPS and abs(later[0]) <= unit * (1 + SAME_GAP):
        return False
    largest = float(np.max(np.abs(sides[0][0])))
    if later.size < MIN_OFFSET_STEPS or not (np.all(later > 0) or np.all(later < 0)):
        return False
    if float(np.max(np.abs(later - later[0]))) > (MOVED if first else 0.0) * abs(later[0]) + SAME_GAP * largest:
        return False
    return bool(2.0 ** (1 - later.size) / comb(gaps.size, later.size) <= OFFSET_CHANCE)
