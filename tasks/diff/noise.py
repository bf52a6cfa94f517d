"""Turns what equal runs differed by, here or in the history, into the noise that a difference is judged against.

All figures are natural logarithms of ratios: 0.01 is 1 %.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import exp, log, pi

import numpy as np
from scipy import optimize, special, stats  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.schema import Frozen

LEAST_PAIRS = 4  # a prior out of fewer differences knows less than the runs that it would judge
TAILS = (2.0, 0.1)  # Gamma prior of the degrees of freedom: M. A. Juárez and M. F. J. Steel, JBES 28 (2010)
LENT = 0.25  # degrees of freedom per pair: pairs have runs in common, and the machine was as it is for some of them
FINEST = 1e-4  # no clock of a run is better than this
DRAWS = 40_000
FEW = 20  # from here on the limits for many values do
MAD_TO_SIGMA = 1.482602  # 1 / Φ⁻¹(3/4)
MAD_EFFICIENCY = 0.37  # against the variance, of normal values


class NoisePrior(Frozen):
    """What neighbouring equal runs differ by: Student's t around 0 with this scale and these degrees of freedom."""

    scale: float
    df: float
    pairs: int  # differences that it was learnt from
    source: str = ""  # e.g. "history of cpu"


class Small(Frozen):
    """What the median and the median deviation of `n` normal values are worth, the values' variance being 1."""

    location_variance: float
    scale_factor: float  # squared median deviation × this ≈ variance × χ²(df) / df
    df: float


def fit_prior(differences: Iterable[float], source: str = "") -> NoisePrior | None:
    """The noise behind differences of equal runs; None if they are too few.

    If the variance of pairs is scattered like a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K.
    Smyth's moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)), then differences follow Student's
    t with d₀ degrees of freedom and scale s₀. It is fitted to them as they are, so that heavy tails show in d₀: Smyth's
    moments of log variances need many groups. No more degrees of freedom than a share of the pairs.
    """
    values = np.asarray([value for value in differences if np.isfinite(value)])
    if len(values) < LEAST_PAIRS:
        return None
    start = max(MAD_TO_SIGMA * float(np.median(np.abs(values))), FINEST)
    shape, rate = TAILS

    def cost(parameters: Sequence[float]) -> float:
        scale, df = np.exp(parameters)
        prior = shape * parameters[1] - rate * df  # of log df
        return -float(stats.t.logpdf(values, df, scale=scale).sum() + prior)

    bounds = [(log(FINEST / 2), log(10.0)), (log(0.5), log(1000.0))]
    found = optimize.minimize(cost, [log(start), log(4.0)], method="Nelder-Mead", bounds=bounds)
    scale, df = (exp(value) for value in found.x)
    return NoisePrior(scale=max(scale, FINEST), df=min(df, LENT * len(values)), pairs=len(values), source=source)


def neighbour_differences(groups: Iterable[Sequence[float]]) -> list[float]:
    """The logarithm of each value over the one before it, within groups of equal runs in the order they ran."""
    found: list[float] = []
    for group in groups:
        values = np.asarray([value for value in group if value > 0])
        found += np.diff(np.log(values)).tolist()
    return found


@lru_cache
def small_sample(n: int) -> Small:
    """The constants for n values: from a simulation with a fixed seed (to about 1 %), for many values their limits."""
    if n < 2:
        return Small(location_variance=1.0, scale_factor=0.0, df=0.0)
    if n > FEW:
        return Small(location_variance=pi / 2 / (n + pi / 2 - 1), scale_factor=MAD_TO_SIGMA**2, df=MAD_EFFICIENCY * n)
    draws = np.random.default_rng(n).standard_normal((DRAWS, n))
    middle = np.median(draws, axis=1)
    squares = np.median(np.abs(draws - middle[:, None]), axis=1) ** 2
    logs = np.log(squares)
    # log(χ²(df) / df) has the variance ψ'(df / 2) and the mean ψ(df / 2) − log(df / 2)
    df = 2 * float(optimize.brentq(lambda half: special.polygamma(1, half) - logs.var(), 1e-2, 1e6))
    factor = exp(float(special.digamma(df / 2)) - log(df / 2) - float(logs.mean()))
    return Small(location_variance=float(middle.var()), scale_factor=factor, df=df)
