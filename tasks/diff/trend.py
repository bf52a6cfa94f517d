"""Says in words whether the gap between two arms grows with the steps, and by which method that was found."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, theilslopes  # type: ignore[import-untyped]

LEAST_POINTS = 6  # with five points in perfect order, chance alone gives 1 in 60
# more steps are put together in blocks, since neighbours are not independent: of |AR(1)| noise up to ρ = 0.99 that does
# not grow, at most 1.3 % are said to (400 series each of 20 to 1000 steps); with 30 blocks it was 8 %
MOST_POINTS = 8
CHANCE = 0.01


def describe_trend(steps: NDArray[np.int64], gaps: NDArray[np.float64]) -> str:
    """Whether gaps[i] at steps[i] grow, shrink, or do neither (Mann–Kendall test, Theil–Sen slope).

    Both are of ranks and medians, so that no single step decides. Longer series are cut into at most MOST_POINTS
    blocks of equal length, of which the medians count. Gaps that are no number are left out.
    """
    finite = np.isfinite(gaps)
    steps, gaps = steps[finite], gaps[finite]
    if len(gaps) < LEAST_POINTS:
        return f"fewer than {LEAST_POINTS} steps from the first difference on: too few to tell whether it grows"
    blocks = min(len(gaps), MOST_POINTS)
    at = np.array([np.median(block) for block in np.array_split(steps.astype(np.float64), blocks)])
    size = np.array([np.median(block) for block in np.array_split(gaps, blocks)])
    if np.all(gaps == gaps[0]):
        return "the gap stays the same"
    if np.all(size == size[0]):
        return f"the gap neither grows nor shrinks for sure (the medians of {blocks} blocks of steps are equal)"
    chance = float(kendalltau(at, size).pvalue)
    slope = float(theilslopes(size, at).slope) + 0.0  # which turns -0.0 into 0.0
    how = f"Mann–Kendall p = {chance:.2g}, Theil–Sen {slope:+.2g} per step"
    if chance >= CHANCE:
        return f"the gap neither grows nor shrinks for sure ({how})"
    rising = float(kendalltau(at, size).statistic) > 0
    return f"the gap {'grows' if rising else 'shrinks'} ({how})"
