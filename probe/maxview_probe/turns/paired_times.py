"""Turns the times of two programs that took turns into the difference of their step times, with its interval.

A *draw* is a pair of newly loaded executables, one of each program, with newly placed buffers. Inside a draw the two
programs take turns; it yields one number, the logarithm of the ratio of their step times. Two executables of one
program differ, so the draws, not the turns, are the independent observations: the interval comes from the scatter of
the draws, and contains the term between executables. Without JAX.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]

FIRST_LOOK = 8  # draws before the first look; fewer are too few for the t distribution of draws that are not normal
GROWTH = 1.4  # ratio of the numbers of draws at two looks


class Interval(NamedTuple):
    """An effect, ln(candidate ÷ baseline), with an interval that holds at every look together."""

    effect: float
    low: float
    high: float


class Rule(NamedTuple):
    """When the difference is decided."""

    chance: float  # of an interval that misses the true effect at any look
    tolerance: float  # effects inside ± this are the same, as a logarithm
    least: float  # smaller effects are never reported, as a logarithm


def ratio_of(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Return one draw's logarithm of the ratio of step times: the interquartile mean over its rounds.

    The n-th values are the neighbouring turns of a round. A quarter of the rounds, and at least one of three, is left
    out at each end, because a turn beside a burst of other load is no measurement. A median would be less exact, and
    would take few values where turns have two levels.
    """
    gaps = np.sort(np.log(candidate) - np.log(baseline))
    outside = max(len(gaps) // 4, int(len(gaps) >= 3))
    return float(gaps[outside : len(gaps) - outside].mean())


def looks(most: int) -> list[int]:
    """Return the numbers of draws after which the interval is looked at, up to `most`."""
    found, draws = [], float(FIRST_LOOK)
    while round(draws) <= most:
        found.append(round(draws))
        draws = max(draws + 1, draws * GROWTH)
    return found


def interval_at(ratios: Sequence[float], look: int | None, chance: float) -> Interval:
    """Return the effect of the draws' ratios (two or more) and its interval at a look (from 1; None: the last one).

    Half of the chance is for the last look, when the limit is reached; of the other half the n-th look before it takes
    1 ÷ (n (n + 1)). So all looks together keep the chance, however many there are.
    """
    return trimmed_interval(ratios, 0.0, chance_at(look, chance))


def chance_at(look: int | None, chance: float) -> float:
    """Return the share of the chance for a look; see `interval_at`."""
    return chance / 2 if look is None else chance / 2 / (look * (look + 1))


def trimmed_interval(values: Sequence[float], share: float, chance: float) -> Interval:
    """Return the mean of values without a share at each end, and its interval (Yuen 1974)."""
    ordered = np.sort(np.asarray(values))
    count, cut = len(ordered), int(share * len(ordered))
    effect = float(ordered[cut : count - cut].mean())
    held = np.clip(ordered, ordered[cut], ordered[count - 1 - cut])
    deviation = held.std(ddof=1) / (1 - 2 * cut / count) / np.sqrt(count)
    half = float(stdtrit(count - 2 * cut - 1, 1 - chance / 2) * deviation)
    return Interval(effect, effect - half, effect + half)


def is_decided(found: Interval, rule: Rule) -> bool:
    """Return whether the interval shows a difference worth reporting, or that there is none beyond the tolerance."""
    beyond = (found.low > 0 or found.high < 0) and abs(found.effect) >= rule.least
    return beyond or (-rule.tolerance < found.low and found.high < rule.tolerance)
