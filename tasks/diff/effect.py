"""Turns the levels of interleaved runs into a difference with its interval, chance and what more runs would show."""

from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.schema import Frozen
from tasks.diff.noise import FINEST, LENT, NoisePrior, small_sample

CONFIDENCE = 0.95
POWER = 0.8  # the chance with which the runs that are asked for should decide
MOST_RUNS = 100  # of one arm: more is not asked for
LIGHT_TAILS = 5.0  # degrees of freedom of what equal runs differ by, from which on means are better than medians
WILD = 4.0  # times the history's scale: a pair that far from the others is not what the history has seen


class Sample(Frozen):
    """One level per run in seconds, in the order the runs were made, with the errors within the runs (relative)."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    unrest: tuple[float | None, ...] = ()  # of each pair (see `Levels.unrest`); empty: as the history's
    error: float = 0.0  # of one run: what its own steps leave open
    prior: NoisePrior | None = None


class Effect(Frozen):
    """candidate / baseline − 1 with its 95 % interval, as natural logarithms of the ratio; `p` of no difference."""

    estimate: float
    scale: float  # of the difference between one run of each arm
    df: float
    pairs: int
    prior: NoisePrior | None = None
    mean: bool = False  # the estimate is the pairs' mean, not their median
    unsteady: float = 1.0  # how many times the noise of typical runs these have, by their unrest

    @cached_property
    def error(self) -> float:
        """The standard error of the estimate."""
        return self.scale * sqrt(location_variance(self.pairs, mean=self.mean))

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
    of the pairs' differences: one pair in which the machine changed does not move it. Where the history shows light
    tails, and no pair is further from the others than those, it is their mean, which then is a sixth more precise, with
    weights: a pair of runs whose steps are unsteady says less, by what the history shows of such runs.

    With a prior, the scale of a pair's difference is what the pairs themselves show (their median deviation; under
    light tails their variance) and what the history shows, each with the weight of its degrees of freedom. The tails of
    a median of r values out of Student's t are (r + 1) / 2 times as light as those of one, those of a mean are no
    lighter. Without a prior, the arms' own scatter is all there is, and it has 2 (r - 1) degrees of freedom. The scale
    is never less than what the steps of single runs leave open.
    """
    pairs = min(len(sample.baseline), len(sample.candidate))
    left, right = (np.log(np.asarray(side[:pairs])) for side in (sample.baseline, sample.candidate))
    differences = right - left
    prior = sample.prior
    mean, typical = False, 1.0
    if prior is not None:
        # of each pair, in multiples of the history's scale
        scales = np.array([prior.scale_at(unrest) for unrest in sample.unrest or (None,) * pairs]) / prior.scale
        mean = is_light(differences, scales, prior)
        if mean:
            estimate = float(np.average(differences, weights=scales**-2))
            seen_df = pairs - 1.0
            seen = float(np.sum(((differences - estimate) / scales) ** 2)) / (pairs - 1) if pairs > 1 else 0.0
            typical = float(np.mean(scales**-2)) ** -0.5  # the variance of the weighted mean is its square ÷ r
        else:
            estimate = float(np.median(differences))
            small = small_sample(pairs)
            seen_df = small.df
            seen = small.scale_factor * float(np.median(np.abs(differences - estimate) / scales)) ** 2
            typical = float(np.mean(scales**2)) ** 0.5
        variance = typical**2 * (prior.df * prior.scale**2 + seen_df * seen) / (prior.df + seen_df)
        df = prior_df(prior, pairs, mean=mean) + seen_df
    elif pairs >= 2:
        estimate = float(np.median(differences))
        scatter = [float(np.var(np.log(np.asarray(side)), ddof=1)) for side in (sample.baseline, sample.candidate)]
        counts = [len(side) - 1 for side in (sample.baseline, sample.candidate)]
        df = float(sum(counts))
        variance = 2 * sum(n * v for n, v in zip(counts, scatter, strict=True)) / df
    else:
        return None
    scale = max(sqrt(variance), sqrt(2) * sample.error, FINEST)
    return Effect(estimate=estimate, scale=scale, df=df, pairs=pairs, prior=prior, mean=mean, unsteady=typical)


def is_light(differences: NDArray[np.float64], scales: NDArray[np.float64], prior: NoisePrior) -> bool:
    """Whether equal runs seldom differ by far more than usual, by the history and by these pairs.

    `scales`: what each pair's runs differ by, in multiples of the history's scale.
    """
    furthest = float(np.max(np.abs(differences - np.median(differences)) / scales))
    return prior.df >= LIGHT_TAILS and furthest <= WILD * prior.scale


def location_variance(pairs: int, *, mean: bool) -> float:
    """The variance of the mean or the median of so many pairs, that of one pair being 1."""
    return 1.0 / pairs if mean else small_sample(pairs).location_variance


def prior_df(prior: NoisePrior, pairs: int, *, mean: bool) -> float:
    """The degrees of freedom that a prior lends to the estimate of so many pairs; no more than it was learnt from."""
    return min(prior.df * (1.0 if mean else (pairs + 1) / 2), LENT * prior.pairs)


def runs_wanted(effect: Effect, *, least: float, within: float, chance: float) -> int | None:
    """How many runs of each arm would probably decide, if the difference is what it looks like now.

    That is: find it (at the level `chance`, if it is at least `least`) or show that it lies inside ±`within`, with the
    probability POWER. None if more than MOST_RUNS would be needed. All in logarithms of the ratio.
    """
    size = abs(effect.estimate)
    lucky = float(stats.norm.ppf(POWER))
    for runs in range(effect.pairs + 1, MOST_RUNS + 1):
        seen_df = runs - 1.0 if effect.mean else small_sample(runs).df
        df = 2.0 * (runs - 1) if effect.prior is None else prior_df(effect.prior, runs, mean=effect.mean) + seen_df
        error = effect.scale * sqrt(location_variance(runs, mean=effect.mean))
        found = size >= least and size >= error * (float(stats.t.isf(chance / 2, df)) + lucky)
        inside = within - size >= error * (float(stats.t.isf((1 - CONFIDENCE) / 2, df)) + lucky)
        if found or inside:
            return runs
    return None
