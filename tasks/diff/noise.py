"""Estimates the noise of a difference of two runs: from a device's stated noise and the history of equal runs there.

All figures are natural logarithms of ratios: 0.01 is 1 %.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np
from scipy.special import gammaln  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.noise import DeviceNoise
from configs.schema import Frozen

LEAST_PAIRS = 8  # pairs of equal runs in the history; with fewer, only the stated noise is used
STATED_WITHIN = 1.0  # ÷ √weight: the prior's standard deviation of the logarithm of the scale, around the stated scale
TAILS_WITHIN = 0.7  # the prior's standard deviation of the logarithm of the degrees of freedom
FINEST = 1e-4  # smallest noise assumed
LENT = 0.5  # degrees of freedom per pair beyond LEAST_PAIRS: below 1, as pairs share runs and machines change


class Past(Frozen):
    """The differences of pairs of equal runs in a history."""

    differences: tuple[float, ...]  # one per pair: logarithm of the ratio of its two levels
    errors: tuple[float, ...] = ()  # one per pair: standard error of the difference due to both levels; () if unknown
    source: str  # e.g. "history of cpu"


class Noise(Frozen):
    """The distribution of the difference between two equal runs shortly after each other: Student's t around 0.

    It excludes the error of each run's own level, which is estimated from the run's steps.
    """

    scale: float
    df: float  # degrees of freedom
    pairs: int = 0  # pairs of the history that it was learnt from; 0: it is the stated noise
    source: str = ""  # in words


@lru_cache(maxsize=256)  # all cases of a comparison use the same history
def learn_noise(stated: DeviceNoise, past: Past | None = None) -> Noise:
    """Return the noise of a device: the stated one; from LEAST_PAIRS pairs on, a fit to the history.

    Model: the variance of a pair follows a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K. Smyth's
    moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)). Differences then follow Student's t with
    scale s₀ and d₀ degrees of freedom; a small d₀ means heavy tails. Both are fitted to the history's differences, with
    the stated values as priors, whose weight falls with every pair. The fitted scale excludes the errors of the pairs'
    levels; `measure_effect` adds those of the judged runs. The scale may lie above or below the stated one: a machine
    with two clock states has a larger scale and heavier tails.
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
    lent = min(df, stated.weight - 1 + LENT * (sizes.size - LEAST_PAIRS))  # fitting the scale uses one
    return Noise(scale=max(scale, FINEST), df=lent, pairs=sizes.size, source=past.source)
