"""Estimates how a time differs between two arms: difference, interval, p-value, number of runs that would decide.

An arm is one side of a comparison of runs. The input is one level per run: the time of its steady or of
its typical steps (see `step_time_levels`).
"""

from functools import cached_property, lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from configs.frozen import Frozen
from tasks.diff.examine.distributions import chi_squared_below, f_above, normal_below, normal_quantile, student_quantile
from tasks.diff.examine.noise import FINEST, Noise
from tasks.diff.judge.decide import MIN_REPEATS

type Values = NDArray[np.float64]

STEPS_DF = 10.0  # degrees of freedom of a level's own error: a run of a hundred steps has ten blocks of ten
# Probabilities below and above which true variances are not distinguished, as logits, and the number of those that are
FARTHEST, NODES = 16.0, 128
EXACT = np.ones(1), np.ones(1)  # the true variances of an error that is known, e.g. 0, and their weights
WIDEST, HALVINGS = 200.0, 24  # largest half width of an interval, as a logarithm; steps of the search for it
CONFIDENCE = 0.99  # confidence level of all intervals, shown or used for the verdict *same*
POWER = 0.8  # probability that the suggested number of runs decides
MAX_RUNS = 100  # per arm: more are never suggested
WIDE = 0.003  # significance level of the test whether the runs scatter more than the noise allows
ENOUGH = 4  # degrees of freedom (three runs of each arm, or five pairs); from here on, their scatter is a lower bound
TOGETHER = 0.01  # significance level of the test whether the n-th runs of both arms rise and fall together
RANKED = 5  # fewest runs of each arm for the rank test
MIXED = 0.02  # p-value of the rank test, above which the runs of the arms count as mixed


class Sample(Frozen):
    """The levels of both arms: one per run, in the order of the runs. Errors are relative."""

    baseline: tuple[float, ...]  # seconds
    candidate: tuple[float, ...]  # seconds
    noise: Noise  # of the difference of two equal runs
    error: float = 0.0  # standard error of a run's level (root mean square of all runs), from its own steps
    between: float = 0.0  # standard deviation due to other machines or days, which more runs do not reduce
    apart: str = ""  # the reason for `between`, e.g. "the arms ran at other times"


class Effect(Frozen):
    """The difference of two arms, with its interval and its p-value.

    Differences and standard deviations are natural logarithms of ratios.
    """

    estimate: float  # logarithm of candidate ÷ baseline
    scale: float  # standard deviation of the difference between one run of the baseline and one of the candidate
    df: float  # degrees of freedom of `scale`
    sample: Sample  # the levels that it was estimated from
    wide: bool = False  # the runs scatter more than the noise allows, so `scale` is estimated from them alone
    paired: bool = False  # the runs of both arms rise and fall together, so `scale` is that of their pairs
    seen: float | None = None  # `scale` as estimated from these runs alone; None: an arm has fewer than MIN_REPEATS

    @property
    def runs(self) -> tuple[int, int]:
        """The number of runs of the baseline and of the candidate."""
        return len(self.sample.baseline), len(self.sample.candidate)

    def chance_beyond(self, size: float) -> float:
        """Return the probability that equal arms differ by more than `size` in either direction.

        The scatter between runs (`scale`) and the uncertainty of each run's own level are estimated, other places and
        days are stated: the difference is normal with the sum of their variances, and the probability is the mean over
        the true variances that the estimates allow (scaled inverse chi-squared; without the other two terms this is
        Student's t). The scatter of several runs contains the uncertainty of their levels, which is then only a lower
        bound.
        """
        between, weights = true_variances(self.df)
        steps, shares = true_variances(STEPS_DF) if self.sample.error else EXACT
        runs, own = between[:, None] * self.scale**2, steps[None] * 2 * self.sample.error**2
        near = runs + own if self.runs == (1, 1) else np.maximum(runs, own)
        error = np.sqrt(near * share_of_pair(*self.runs) + self.sample.between**2)
        return float(2 * weights @ normal_below(-size / error) @ shares)

    @cached_property
    def p(self) -> float:
        """The two-sided p-value: the probability that equal arms differ at least as much."""
        return self.chance_beyond(abs(self.estimate))

    def half_width(self, chance: float) -> float:
        """Return the difference that equal arms exceed with this probability, as a logarithm."""
        low, high = 0.0, self.scale
        while high < WIDEST and self.chance_beyond(high) > chance:
            low, high = high, 4 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.chance_beyond(middle) > chance else (low, middle)
        return min(high, WIDEST)

    def interval(self) -> tuple[float, float]:
        """Return the low and the high end of the confidence interval, as logarithms."""
        return self.estimate - self.half, self.estimate + self.half

    @cached_property
    def half(self) -> float:
        """Half of the confidence interval: rows ask for the interval four times."""
        return self.half_width(1 - CONFIDENCE)


@lru_cache(maxsize=64)
def true_variances(df: float) -> tuple[Values, Values]:
    """Return (true variance ÷ estimated one, weight) at probabilities whose logits are evenly spaced.

    df: degrees of freedom of the estimate, which follows a scaled chi-squared distribution.
    """
    ends = np.linspace(-FARTHEST, FARTHEST, NODES + 1)
    shares = 1 / (1 + np.exp(-ends))
    middle = 1 / (1 + np.exp(-(ends[1:] + ends[:-1]) / 2))
    weights = np.diff(shares)
    return df / chi_squared_below(df, middle), weights / weights.sum()


def share_of_pair(baseline: int, candidate: int) -> float:
    """Return var(difference of the arms' means) ÷ var(difference of two runs), from the number of runs of each arm."""
    return (1 / baseline + 1 / candidate) / 2


def measure_effect(sample: Sample) -> Effect:
    """Return the mean difference of two arms and its noise.

    If the arms have equally many runs, no `Sample.between`, and n-th runs that rise and fall together, these are
    compared as pairs, which share the machine's state. Otherwise each run scatters around the mean of its arm. The
    variance is the mean of the runs' own variance and of the prior (`Noise`), weighted by degrees of freedom. The prior
    never hides a larger scatter: from ENOUGH degrees of freedom on, the runs' own variance is a lower bound, and
    unpaired runs that scatter more than machines of the prior do (F-test at the level WIDE) use their own variance
    only. A noise that was learnt from a history is a lower bound too. `Sample.between` is not reduced by more runs.
    """
    left, right = np.log(np.asarray(sample.baseline)), np.log(np.asarray(sample.candidate))
    noise = sample.noise
    paired = left.size == right.size and not sample.between and move_together(left, right)
    if paired:
        squares, seen_df = float(np.sum((right - left - np.mean(right - left)) ** 2)), left.size - 1
    else:  # the difference of two independent runs has the sum of their variances
        squares = 2 * float(np.sum((left - left.mean()) ** 2) + np.sum((right - right.mean()) ** 2))
        seen_df = left.size + right.size - 2
    seen = squares / seen_df if seen_df else 0.0
    known, df = (noise.scale, noise.df) if seen_df or noise.one_run is None else noise.one_run
    variance = (df * known**2 + squares) / (df + seen_df)
    own = max(known**2, 2 * sample.error**2)
    wide = not paired and seen_df > 0 and seen > own * f_above(seen_df, df, WIDE)
    df += seen_df
    if wide:
        df = max(1.0, seen_df / 2)  # fewer than seen_df: a machine with two clock states does not scatter normally
    if wide or seen_df >= ENOUGH:
        variance = max(variance, seen)
    if noise.pairs and seen_df:  # a few runs may by chance all have one clock state; the history contains every state
        variance = max(variance, noise.scale**2)
    return Effect(
        estimate=float(right.mean() - left.mean()),
        scale=max(sqrt(variance), FINEST),
        df=df,
        sample=sample,
        wide=wide,
        paired=paired,
        seen=sqrt(seen) if min(left.size, right.size) >= MIN_REPEATS else None,
    )


def are_mixed(effect: Effect) -> bool:
    """Return whether the rank test of Mann and Whitney (exact) shows no difference: its p-value is above MIXED.

    A machine with two clock states can give one arm five slow runs and the other arm one: the means differ by more
    than the scatter, but one run lies among those of the other arm. Always False for fewer than RANKED runs of
    an arm, for pairs, and for a noise that was learnt from a history, because the history contains both clock states.
    """
    if min(effect.runs) < RANKED or effect.sample.noise.pairs or effect.paired:
        return False
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # slow to load, and few comparisons need it

    return float(mannwhitneyu(effect.sample.baseline, effect.sample.candidate, method="exact").pvalue) > MIXED


def move_together(left: Values, right: Values) -> bool:
    """Return whether the runs of two arms rise and fall together: a one-sided test of their correlation.

    Two runs of each arm are too few for the test and count as correlated. One run of each does not.
    """
    if left.size < MIN_REPEATS:
        return left.size > 1
    left, right = left - left.mean(), right - right.mean()
    spread = sqrt(float(left @ left) * float(right @ right))
    if not spread:
        return False
    most, df = 1 - FINEST**2, left.size - 2
    correlation = max(-most, min(most, float(left @ right) / spread))
    return bool(correlation * sqrt(df / (1 - correlation**2)) > student_quantile(df, 1 - TOGETHER))


def runs_wanted(effect: Effect, *, least: float, within: float, chance: float) -> int | None:
    """Return how many runs per arm decide with probability POWER, if the estimate is true; None if above MAX_RUNS.

    They decide if the difference is at least `least` with a p-value of at most `chance`, or if the interval lies inside
    ±`within`. `least` and `within` are logarithms of ratios. Further runs of both arms are assumed to alternate on one
    machine and to scatter like the present ones, so the scale moves towards the scatter of the present runs.
    """
    size, lucky, own = abs(effect.estimate), float(normal_quantile(POWER)), effect.sample.error * sqrt(2)
    runs = np.arange(max(effect.runs) + 1, MAX_RUNS + 1)
    more = runs - min(effect.runs)
    df, seen = effect.df + more, effect.scale if effect.seen is None else effect.seen
    noise = effect.sample.noise
    known = noise.scale if noise.pairs else 0.0
    least_scale = max(known, own, FINEST)
    error = np.sqrt(np.maximum((effect.df * effect.scale**2 + more * seen**2) / df, least_scale**2) / runs)
    significant = (size >= least) & (size >= error * (lucky - student_quantile(df, chance / 2)))
    inside = within - size >= error * (lucky - student_quantile(df, (1 - CONFIDENCE) / 2))
    enough = runs[significant | inside]
    return int(enough[0]) if enough.size else None
