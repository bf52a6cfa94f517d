"""Turns what is stated of a device, and what equal runs there differed by, into the noise of a difference.

All figures are natural logarithms of ratios: 0.01 is 1 %.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import exp, isfinite, log, sqrt

import numpy as np
from scipy import optimize, stats  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.noise import DeviceNoise
from configs.schema import Frozen

LEAST_PAIRS = 8  # of the history: fewer add nothing to what is stated
STATED_WITHIN = 2.0  # over √weight: standard deviation of the logarithm of the true scale around the stated one
TAILS_WITHIN = 0.7  # the same of the degrees of freedom
FINEST = 1e-4  # no clock of a run is better than this
LENT = 0.5  # degrees of freedom per pair of the history: pairs have runs in common, and machines change


class Past(Frozen):
    """What pairs of equal runs differed by, and where that is known from."""

    differences: tuple[float, ...]
    source: str  # e.g. "history of cpu"


class Noise(Frozen):
    """What neighbouring equal runs differ by: Student's t around 0 with this scale and these degrees of freedom."""

    scale: float
    df: float
    pairs: int = 0  # of the history; 0: as stated of the device
    source: str = ""


def learn_noise(stated: DeviceNoise, past: Past | None = None) -> Noise:
    """The noise of a device: as stated, and the more as its history shows the longer that is.

    If the variance of pairs is scattered like a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K.
    Smyth's moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)), then differences follow Student's
    t with scale s₀ and d₀ degrees of freedom. Both are fitted to the history's differences, with what is stated as the
    prior of each: heavy tails show in d₀, and with every pair less depends on the statement.
    """
    sizes = np.asarray([size for size in (past.differences if past else ()) if isfinite(size)])
    if past is None or sizes.size < LEAST_PAIRS:
        return Noise(scale=stated.equal_runs, df=stated.weight, source=stated.why)

    def cost(parameters: Sequence[float]) -> float:
        log_scale, log_df = parameters
        priors = stats.norm.logpdf(log_scale, log(stated.equal_runs), STATED_WITHIN / sqrt(stated.weight))
        priors += stats.norm.logpdf(log_df, log(stated.weight), TAILS_WITHIN)
        return -float((stats.t.logpdf(sizes / exp(log_scale), exp(log_df)) - log_scale).sum() + priors)

    start = max(float(np.median(np.abs(sizes))), FINEST)
    found = optimize.minimize(cost, [log(start), log(stated.weight)], method="Nelder-Mead")
    scale, df = (exp(value) for value in found.x)
    known = min(df, stated.weight + LENT * sizes.size)
    return Noise(scale=max(scale, FINEST), df=known, pairs=sizes.size, source=past.source)


def neighbour_differences(groups: Iterable[Sequence[float]]) -> list[float]:
    """Each value with the one before it, within groups of equal runs in the order they ran."""
    usable = ([value for value in group if value > 0] for group in groups)
    return [log(after / before) for group in usable for before, after in pairwise(group)]
