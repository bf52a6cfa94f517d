"""Turns the levels of interleaved runs into a difference with its interval, chance and what more runs would show."""

from functools import cached_property
from math import sqrt

import numpy as np
from scipy import stats  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.schema import Frozen
from tasks.diff.noise import FINEST, LENT, NoisePrior, small_sample

CONFIDENCE = 0.95
POWER = 0.8  # the chance with which the runs that are asked for should decide
MOST_RUNS = 100  # of one arm: more is not asked for


class Sample(Frozen):
    """One level per run in seconds, in the order the runs were made, with the errors within the runs (relative)."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    error: float = 0.0  # of one run: what its own steps leave open
    prior: NoisePrior | None = None


class Effect(Frozen):
    """candidate / baseline − 1 with its 95 % interval, as natural logarithms of the ratio; `p` of no difference."""

    estimate: float
    scale: float  # of the difference between one run of each arm
    df: float
    pairs: int
    prior: NoisePrior | None = None

    @cached_property
    def error(self) -> float:
        """The standard error of the estimate."""
        return self.scale * sqrt(small_sample(self.pairs).location_variance)

    @property
    def p(self) -> float:
        """The chance of an estimate as far from 0 if there is no difference; both sides."""
        return float(2 * stats.t.sf(abs(self.estimate) / self.error, self.df))

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The ends between which the difference lies with this confidence."""
        half = float(stats.t.ppf((1 + confidence) / 2, self.df)) * self.error
        return self.estimate - half, self.estimate + half


def measure_effect(sample: Sample) -> Effect | None:
    """The difference of two arms; None if nothing tells how much equal runs differ.

    Runs that are neighbours in time form pairs, which share whatever the machine was doing. The estimate is the median
    of the pairs' differences: one pair in which the machine changed does not move it.

    With a prior, the scale of a pair's difference is what the pairs themselves show (their median deviation) and what
    the history shows, each with the weight of its degrees of freedom. The tails are those of a median of r values out
    of Student's t: the history's degrees of freedom count (r + 1) / 2 times. Without one, the arms' own scatter is all
    there is, and it has 2 (r − 1) degrees of freedom. It is never less than what the steps of single runs leave open.
    """
    pairs = min(len(sample.baseline), len(sample.candidate))
    left, right = (np.log(np.asarray(side[:pairs])) for side in (sample.baseline, sample.candidate))
    differences = right - left
    estimate = float(np.median(differences))
    small, prior = small_sample(pairs), sample.prior
    if prior is not None:
        seen = small.scale_factor * float(np.median(np.abs(differences - estimate))) ** 2
        weight = prior.df + small.df
        variance = (prior.df * prior.scale**2 + small.df * seen) / weight
        df = prior_df(prior, pairs) + small.df
    elif pairs >= 2:
        scatter = [float(np.var(np.log(np.asarray(side)), ddof=1)) for side in (sample.baseline, sample.candidate)]
        counts = [len(side) - 1 for side in (sample.baseline, sample.candidate)]
        df = float(sum(counts))
        variance = 2 * sum(n * v for n, v in zip(counts, scatter, strict=True)) / df
    else:
        return None
    scale = max(sqrt(variance), sqrt(2) * sample.error, FINEST)
    return Effect(estimate=estimate, scale=scale, df=df, pairs=pairs, prior=prior)


def prior_df(prior: NoisePrior, pairs: int) -> float:
    """The degrees of freedom that a prior lends to the median of so many pairs; no more than it was learnt from."""
    return min(prior.df * (pairs + 1) / 2, LENT * prior.pairs)


def runs_wanted(effect: Effect, *, least: float, within: float, chance: float) -> int | None:
    """How many runs of each arm would probably decide, if the difference is what it looks like now.

    That is: find it (at the level `chance`, if it is at least `least`) or show that it lies inside ±`within`, with the
    probability POWER. None if more than MOST_RUNS would be needed. All in logarithms of the ratio.
    """
    size = abs(effect.estimate)
    lucky = float(stats.norm.ppf(POWER))
    for runs in range(effect.pairs + 1, MOST_RUNS + 1):
        small = small_sample(runs)
        df = 2.0 * (runs - 1) if effect.prior is None else prior_df(effect.prior, runs) + small.df
        error = effect.scale * sqrt(small.location_variance)
        found = size >= least and size >= error * (float(stats.t.isf(chance / 2, df)) + lucky)
        inside = within - size >= error * (float(stats.t.isf((1 - CONFIDENCE) / 2, df)) + lucky)
        if found or inside:
            return runs
    return None
