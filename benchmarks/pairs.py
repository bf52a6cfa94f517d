"""Estimates the ratio of two alternately measured times, and compares it with a target."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats  # type: ignore[import-untyped]  # its stubs are a package of their own


class Ratio(NamedTuple):
    """The median of the pairs' ratios, with its 95 % interval."""

    median: float
    least: float
    most: float

    def judge(self, target: float) -> str:
        """Return the ratio as text, and whether it meets the target within its interval."""
        met = "met" if self.most <= target else "NOT MET" if self.least > target else "not decided: take more"
        return f"{self.median:.3f} ({self.least:.3f} to {self.most:.3f})  ≤ {target}: {met}"


def find_ratio(ours: ArrayLike, theirs: ArrayLike) -> Ratio:
    """Estimate the ratio by order statistics, which assume no distribution of the times."""
    ratios = np.sort(np.divide(ours, theirs))
    # pairs under the median; fewer in less than 2.5 of 100
    below = max(int(stats.binom.ppf(0.025, len(ratios), 0.5)), 1)
    return Ratio(float(np.median(ratios)), float(ratios[below - 1]), float(ratios[-below]))
