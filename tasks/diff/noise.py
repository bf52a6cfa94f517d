"""Turns what equal runs differed by, here or in the history, into the noise that a difference is judged against.

All figures are natural logarithms of ratios: 0.01 is 1 %.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import exp, hypot, isfinite, log, pi, sqrt

import numpy as np
from scipy import optimize, special, stats  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.schema import Frozen

LEAST_PAIRS = 4  # a prior out of fewer differences knows less than the runs that it would judge
CALM = 1e-3  # no run's steps are thought to be steadier: logs print milliseconds
CALMEST = 0.1  # the quantile of the history's unrest below which nothing was learnt
GROWTH = (0.75, 0.4)  # normal prior of how the noise grows with the unrest: mean, standard deviation
MOST_GROWTH = 2.0
TAILS = (2.0, 0.1)  # Gamma prior of the degrees of freedom: M. A. Juárez and M. F. J. Steel, JBES 28 (2010)
LENT = 0.25  # degrees of freedom per pair: pairs have runs in common, and the machine was as it is for some of them
FINEST = 1e-4  # no clock of a run is better than this
DRAWS = 40_000
FEW = 20  # from here on the limits for many values do
MAD_TO_SIGMA = 1.482602  # 1 / Φ⁻¹(3/4)
MAD_EFFICIENCY = 0.37  # against the variance, of normal values


class Difference(Frozen):
    """What two equal runs differ by, and their unrest (see `Levels.unrest`), None if it is not known."""

    size: float
    unrest: float | None = None


class NoisePrior(Frozen):
    """What neighbouring equal runs differ by: Student's t around 0 with this scale and these degrees of freedom.

    The scale is that of runs with the typical unrest of the history; it goes with a power of the unrest, `growth`.
    """

    scale: float
    df: float
    pairs: int  # differences that it was learnt from
    source: str = ""  # e.g. "history of cpu"
    unrest: float = CALM  # the median of those pairs
    calmest: float = CALM  # no run counts as calmer than these
    growth: float = 0.0

    def scale_at(self, unrest: float | None) -> float:
        """What equal runs of this unrest differ by; those of the typical one if it is not known."""
        return self.scale if unrest is None else self.scale * (max(unrest, self.calmest) / self.unrest) ** self.growth


class Small(Frozen):
    """What the median and the median deviation of `n` normal values are worth, the values' variance being 1."""

    location_variance: float
    scale_factor: float  # squared median deviation × this ≈ variance × χ²(df) / df
    df: float


def fit_prior(differences: Iterable[Difference], source: str = "") -> NoisePrior | None:
    """The noise behind differences of equal runs; None if they are too few.

    If the variance of pairs is scattered like a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K.
    Smyth's moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)), then differences follow Student's
    t with d₀ degrees of freedom and scale s₀. It is fitted to them as they are, so that heavy tails show in d₀: Smyth's
    moments of log variances need many groups. No more degrees of freedom than a share of the pairs.

    Most of that scatter can be seen in the runs themselves: where their own steps are unsteady, runs differ by more
    (docs/decisions/0005). So the scale is fitted as a power of the pair's unrest, which leaves far lighter tails.
    """
    pairs = [pair for pair in differences if isfinite(pair.size)]
    if len(pairs) < LEAST_PAIRS:
        return None
    sizes = np.asarray([pair.size for pair in pairs])
    known = [pair.unrest for pair in pairs if pair.unrest is not None]
    typical, calmest = (max(float(np.quantile(known or [CALM], part)), CALM) for part in (0.5, CALMEST))
    unrest = np.log([max(typical if pair.unrest is None else pair.unrest, calmest) / typical for pair in pairs])
    start = max(MAD_TO_SIGMA * float(np.median(np.abs(sizes))), FINEST)
    shape, rate = TAILS

    def cost(parameters: Sequence[float]) -> float:
        log_scale, log_df, growth = parameters
        scales = np.exp(log_scale + growth * unrest)
        priors = shape * log_df - rate * exp(log_df) + float(stats.norm.logpdf(growth, *GROWTH))
        return -float((stats.t.logpdf(sizes / scales, exp(log_df)) - np.log(scales)).sum() + priors)

    bounds = [(log(FINEST / 2), log(10.0)), (log(0.5), log(1000.0)), (0.0, MOST_GROWTH)]
    found = optimize.minimize(cost, [log(start), log(4.0), GROWTH[0]], method="Nelder-Mead", bounds=bounds)
    scale, df = (exp(value) for value in found.x[:2])
    return NoisePrior(
        scale=max(scale, FINEST),
        df=min(df, LENT * len(pairs)),
        pairs=len(pairs),
        source=source,
        unrest=typical,
        calmest=calmest,
        growth=float(found.x[2]) if known else 0.0,
    )


def neighbour_differences(groups: Iterable[Sequence[tuple[float, float | None]]]) -> list[Difference]:
    """Each value (and its run's unrest) with the one before it, within groups of equal runs in the order they ran."""
    found: list[Difference] = []
    for group in groups:
        usable = [run for run in group if run[0] > 0]
        for (before, one), (after, other) in pairwise(usable):
            found.append(Difference(size=log(after / before), unrest=pair_unrest(one, other)))
    return found


def pair_unrest(one: float | None, other: float | None) -> float | None:
    """The unrest of two runs: their root mean square."""
    return None if one is None or other is None else hypot(one, other) / sqrt(2)


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
