"""Turns what is stated of a device, and what equal runs there differed by, into the noise of a difference.

All figures are natural logarithms of ratios: 0.01 is 1 %.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np
from scipy.special import gammaln  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.noise import DeviceNoise
from configs.schema import Frozen

LEAST_PAIRS = 8  # of the history: fewer add nothing to what is stated
STATED_WITHIN = 1.0  # over √weight: standard deviation of the logarithm of the true scale around the stated one
TAILS_WITHIN = 0.7  # the same of the degrees of freedom
FINEST = 1e-4  # no clock of a run is better than this
LENT = 0.5  # degrees of freedom per further pair of the history: pairs have runs in common, and machines change


class Past(Frozen):
    """What pairs of equal runs differed by, and where that is known from."""

    differences: tuple[float, ...]
    errors: tuple[float, ...] = ()  # of each, what the steps of its two runs leave open; empty: not known
    source: str  # e.g. "history of cpu"


class Noise(Frozen):
    """What neighbouring equal runs differ by: Student's t around 0 with this scale and these degrees of freedom.

    Beside what the steps of each run leave open, which is known of each run by itself.
    """

    scale: float
    df: float
    pairs: int = 0  # of the history; 0: as stated of the device
    source: str = ""


@lru_cache(maxsize=256)  # the cases of a comparison have one history
def learn_noise(stated: DeviceNoise, past: Past | None = None) -> Noise:
    """The noise of a device: as stated, and the more as its history shows the longer that is.

    If the variance of pairs is scattered like a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K.
    Smyth's moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)), then differences follow Student's
    t with scale s₀ and d₀ degrees of freedom. Both are fitted to the history's differences, with what is stated as the
    prior of each: heavy tails show in d₀, and with every pair less depends on the statement. What the steps of a pair
    leave open is no part of the scale: it is taken off here, and added again for the runs that are judged.
    The statement is neither floor nor ceiling: a machine with two clock states has a wider scale and heavier tails.
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
