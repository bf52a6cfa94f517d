"""Estimates the noise of a difference: from the stated noise of a device and the history of equal runs there.

All figures are natural logarithms of ratios: 0.01 is 1 %.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np
from scipy.special import gammaln  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.noise import DeviceNoise
from configs.schema import Frozen

LEAST_PAIRS = 8  # of the history; with fewer, only the stated noise counts
STATED_WITHIN = 1.0  # over √weight: standard deviation of the logarithm of the true scale around the stated one
TAILS_WITHIN = 0.7  # the same for the degrees of freedom
FINEST = 1e-4  # smallest noise assumed
LENT = 0.5  # degrees of freedom per further pair of the history: pairs have runs in common, and machines change


class Past(Frozen):
    """The differences of pairs of equal runs, and their source."""

    differences: tuple[float, ...]
    errors: tuple[float, ...] = ()  # per pair, the standard error of its two levels; empty if unknown
    source: str  # e.g. "history of cpu"


class Noise(Frozen):
    """The distribution of the difference of neighbouring equal runs: Student's t around 0.

    It excludes the error of each run's own level, which is estimated per run.
    """

    scale: float
    df: float
    pairs: int = 0  # of the history; 0: the stated noise
    source: str = ""


@lru_cache(maxsize=256)  # all cases of a comparison share a history
def learn_noise(stated: DeviceNoise, past: Past | None = None) -> Noise:
    """Return the noise of a device: the stated one, replaced by its history as that grows.

    If the variance of pairs is scattered like a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K.
    Smyth's moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)), then differences follow Student's
    t with scale s₀ and d₀ degrees of freedom. Both are fitted to the history's differences, with the stated values as
    priors, whose weight falls with every pair; d₀ shows heavy tails. The errors of a pair's own levels are subtracted
    from the scale here, and added again for the judged runs. The fitted scale may lie above or below the stated one: a
    machine with two clock states has a wider scale and heavier tails.
    """
    sizes = np.asarray(past.differences if past else ())
    squares = np.square(past.errors if past and past.errors else np.zeros(sizes.size))
    known = np.isfinite(sizes) & np.isfinite(squares)
    sizes, squares = sizes[known], squares[known]
    if past is None or sizes.size < LEAST_PAIRS:
        return Noise(scale=stated.equal_runs, df=stated.weight, source=stated.why)
    from scipy import optimize  # type: ignore[import-untyped]  # slow to load, and only a long history needs it

    def cost(parameters: Sequence[float]) -> float:
        log_scale, log_df = parameters
        off = (log_scale - log(stated.equal_runs)) * sqrt(stated.weight) / STATED_WITHIN
        heavy, df = (log_df - log(stated.weight)) / TAILS_WITHIN, exp(log_df)
        # minus the logarithms of the priors (normal) and of each difference's density (Student's t), less constants
        variances = exp(2 * log_scale) + squares
        each = gammaln(df / 2) - gammaln((df + 1) / 2) + log(df) / 2 + np.log(variances) / 2
        tails = (df + 1) / 2 * np.log1p(sizes**2 / variances / df)
        return float((off**2 + heavy**2) / 2 + (each + tails).sum())

    start = max(float(np.median(np.abs(sizes))), FINEST)
    found = optimize.minimize(cost, [log(start), log(stated.weight)], method="Nelder-Mead")
    scale, df = (exp(value) for value in found.x)
    lent = min(df, stated.weight - 1 + LENT * (sizes.size - LEAST_PAIRS))  # the fit of the scale costs one
    return Noise(scale=max(scale, FINEST), df=lent, pairs=sizes.size, source=past.source)
