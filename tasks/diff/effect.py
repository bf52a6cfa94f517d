"""Turns one level per run into the difference of two arms, with its interval and p-value, and the runs still needed."""

from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri, stdtr, stdtrit  # type: ignore[import-untyped]  # scipy.stats takes 2 s to load

from configs.schema import Frozen
from tasks.diff.decide import LEAST_REPEATS
from tasks.diff.noise import FINEST, Noise

type Values = NDArray[np.float64]

CONFIDENCE = 0.99  # of the intervals, both those shown and those that decide *same*
POWER = 0.8  # probability that the suggested number of runs decides
MOST_RUNS = 100  # per arm: more are never suggested
WIDE = 0.003  # chance that runs with the stated scatter are judged to scatter more
ENOUGH = 6  # degrees of freedom, i.e. four runs of each, from which the runs' own scatter is a lower bound
TOGETHER = 0.05  # chance that independent arms are judged to rise and fall together
RANKED = 5  # runs of each arm from which on their order counts
MIXED = 0.02  # chance of such an order of equal runs, above which the arms are mixed


class Sample(Frozen):
    """One level per run in seconds, in the order of the runs. Errors are relative."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    noise: Noise  # of a pair of equal runs
    error: float = 0.0  # standard error of one run's level, from its own steps
    between: float = 0.0  # standard deviation between the arms' places and days, which more runs do not reduce
    apart: str = ""  # the reason for `between`, e.g. "the arms ran at other times"


class Effect(Frozen):
    """The natural logarithm of candidate ÷ baseline, with its interval and its p-value."""

    estimate: float
    scale: float  # standard deviation of the difference of one run of each arm
    df: float
    runs: tuple[int, int]
    noise: Noise
    between: float = 0.0
    apart: str = ""
    wide: bool = False  # the runs scatter more than stated, so only their own scatter counts
    paired: bool = False  # the runs of both arms rise and fall together
    seen: float | None = None  # standard deviation of a pair, from these runs only; None: too few runs

    @cached_property
    def error(self) -> float:
        """The standard error of the estimate."""
        return sqrt(self.scale**2 * share_of_pair(*self.runs) + self.between**2)

    @cached_property
    def error_df(self) -> float:
        """The degrees of freedom of the error (Welch–Satterthwaite): `between` is stated, the scale is estimated."""
        return self.df * (self.error**2 / (self.scale**2 * share_of_pair(*self.runs))) ** 2

    @property
    def p(self) -> float:
        """The two-sided p-value of no difference."""
        return float(2 * stdtr(self.error_df, -abs(self.estimate) / self.error))

    def interval(self) -> tuple[float, float]:
        """Return the ends of the interval with CONFIDENCE."""
        half = float(stdtrit(self.error_df, (1 + CONFIDENCE) / 2)) * self.error
        return self.estimate - half, self.estimate + half


def share_of_pair(baseline: int, candidate: int) -> float:
    """Return the variance of the difference of two means, as a share of that of one run of each."""
    return (1 / baseline + 1 / candidate) / 2


def measure_effect(sample: Sample) -> Effect:
    """Return the mean difference of two arms and its noise.

    If the runs of both arms rise and fall together, neighbours form pairs, which share the state of the machine.
    Otherwise each run scatters around the mean of its arm. The variance is the mean of the runs' own variance and of
    the prior (`Noise`, plus the error of each run's level), weighted by degrees of freedom. The prior never hides a
    larger scatter: with ENOUGH degrees of freedom the runs' own variance is a lower bound, and runs that scatter more
    than the prior allows (chance WIDE) use their own variance only. Agreeing runs do not lower a history's scale.
    `Sample.between` is added for any number of runs.
    """
    left, right = np.log(np.asarray(sample.baseline)), np.log(np.asarray(sample.candidate))
    noise = sample.noise
    paired = left.size == right.size and not sample.between and _move_together(left, right)
    if paired:
        squares, seen_df = float(np.sum((right - left - np.mean(right - left)) ** 2)), left.size - 1
    else:  # a pair of independent runs has the variance of both
        squares = 2 * float(np.sum((left - left.mean()) ** 2) + np.sum((right - right.mean()) ** 2))
        seen_df = left.size + right.size - 2
    seen = squares / seen_df if seen_df else 0.0
    known, df = noise.scale**2 + 2 * sample.error**2, noise.df + seen_df
    variance = (noise.df * known + squares) / df
    wide = not paired and seen_df > 0 and squares > known * chdtri(seen_df, WIDE)
    if wide:
        df = max(1.0, seen_df / 2)  # as many as there are pairs, less one: two states are not normal
    if wide or seen_df >= ENOUGH:
        variance = max(variance, seen)
    if noise.pairs and seen_df:  # a few runs that agree by chance do not outweigh a history: its clocks have two states
        variance = max(variance, noise.scale**2)
    return Effect(
        estimate=float(right.mean() - left.mean()),
        scale=max(sqrt(variance), FINEST),
        df=df,
        runs=(left.size, right.size),
        noise=noise,
        between=sample.between,
        apart=sample.apart,
        wide=wide,
        paired=paired,
        seen=sqrt(seen) if min(left.size, right.size) >= LEAST_REPEATS else None,
    )


def are_mixed(sample: Sample, effect: Effect) -> bool:
    """Return whether the order of the runs does not show a difference (Mann and Whitney, exact, at MIXED).

    A machine with two clock states can give one arm five slow runs and the other arm one: the means differ by more
    than the scatter, but one run lies among those of the other arm. A history knows such states. Three runs of each
    have too few orders for this test.
    """
    if min(effect.runs) < RANKED or effect.noise.pairs or effect.paired:
        return False
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # slow to load, and few comparisons need it

    return float(mannwhitneyu(sample.baseline, sample.candidate, method="exact").pvalue) > MIXED


def _move_together(left: Values, right: Values) -> bool:
    """Return whether the runs of two arms rise and fall together: a one-sided test of their correlation.

    Two pairs are too few for the test and count as correlated.
    """
    if left.size < LEAST_REPEATS:
        return left.size > 1
    left, right = left - left.mean(), right - right.mean()
    spread = sqrt(float(left @ left) * float(right @ right))
    if not spread:
        return False
    most, df = 1 - FINEST**2, left.size - 2
    correlation = max(-most, min(most, float(left @ right) / spread))
    return bool(correlation * sqrt(df / (1 - correlation**2)) > stdtrit(df, 1 - TOGETHER))


def runs_wanted(effect: Effect, *, least: float, within: float, chance: float) -> int | None:
    """Return the runs per arm that decide with probability POWER, if the estimate is true; None above MOST_RUNS.

    They decide if they show a difference of at least `least` (at the level `chance`), or an interval inside ±`within`.
    All figures are logarithms of the ratio. The further runs are assumed to be neighbours in time and to scatter like
    the present ones, so the scale moves towards the scatter of the present runs.
    """
    size, lucky = abs(effect.estimate), float(ndtri(POWER))
    runs = np.arange(max(effect.runs) + 1, MOST_RUNS + 1)
    more = runs - min(effect.runs)
    df, seen = effect.df + more, effect.scale if effect.seen is None else effect.seen
    known = effect.noise.scale if effect.noise.pairs else 0.0
    error = np.sqrt(np.maximum((effect.df * effect.scale**2 + more * seen**2) / df, known**2) / runs)
    found = (size >= least) & (size >= error * (lucky - stdtrit(df, chance / 2)))
    inside = within - size >= error * (lucky - stdtrit(df, (1 - CONFIDENCE) / 2))
    enough = runs[found | inside]
    return int(enough[0]) if enough.size else None
