"""Turns the levels of two arms' runs into a difference with its interval, chance and what more runs would show."""

from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri, stdtr, stdtrit  # type: ignore[import-untyped]  # scipy.stats takes 2 s to load

from configs.schema import Frozen
from tasks.diff.decide import LEAST_REPEATS
from tasks.diff.noise import FINEST, Noise

type Values = NDArray[np.float64]

CONFIDENCE = 0.99  # of the intervals that are shown, and that *same* is earned by
POWER = 0.8  # the chance with which the runs that are asked for should decide
MOST_RUNS = 100  # of one arm: more is not asked for
WIDE = 0.003  # chance with which runs that scatter as stated are taken to scatter more
ENOUGH = 6  # degrees of freedom of runs that show their own scatter, with four runs of each
TOGETHER = 0.05  # chance with which independent arms are taken to move together


class Sample(Frozen):
    """One level per run in seconds, in the order the runs were made, with the errors within the runs (relative)."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    noise: Noise  # of a pair of equal runs
    error: float = 0.0  # of one run: what its own steps leave open
    between: float = 0.0  # standard deviation of what lies between the arms' places and days, however many runs
    apart: str = ""  # why: "the arms ran at other times"


class Effect(Frozen):
    """candidate / baseline − 1 with its interval, as natural logarithms of the ratio; `p` of no difference."""

    estimate: float
    scale: float  # of the difference between one run of each arm
    df: float
    runs: tuple[int, int]
    noise: Noise
    between: float = 0.0
    apart: str = ""
    wide: bool = False  # the runs scatter more than was known: their own scatter alone is believed
    seen: float | None = None  # the standard deviation of a pair by these runs alone; None: too few runs

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
        """The chance of an estimate as far from 0 if there is no difference; both sides."""
        return float(2 * stdtr(self.error_df, -abs(self.estimate) / self.error))

    def interval(self) -> tuple[float, float]:
        """The ends between which the difference lies with CONFIDENCE."""
        half = float(stdtrit(self.error_df, (1 + CONFIDENCE) / 2)) * self.error
        return self.estimate - half, self.estimate + half


def share_of_pair(baseline: int, candidate: int) -> float:
    """The variance of the difference of two means of so many runs, that of one run of each being 1."""
    return (1 / baseline + 1 / candidate) / 2


def measure_effect(sample: Sample) -> Effect:
    """The mean difference of two arms, with the noise that the runs themselves and what was known before show.

    Runs that were neighbours in time and rise and fall together form pairs, which share whatever the machine was doing.
    All other runs scatter around the mean of their arm. The variance is what the runs show and what was known
    (`Noise`), each with the weight of its degrees of freedom; what the steps of single runs leave open is added to what
    was known. That is a floor and no ceiling: ENOUGH runs that show more are believed, and runs that surely show more
    have their own scatter alone. Runs that agree do not lower the scale of a history. What lies between the arms
    (`Sample.between`) no number of runs shows.
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
        seen=sqrt(seen) if min(left.size, right.size) >= LEAST_REPEATS else None,
    )


def _move_together(left: Values, right: Values) -> bool:
    """Whether the runs of two arms rise and fall together, pair by pair: a test of their correlation, one-sided.

    Two pairs cannot show it, and are taken to.
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
    """How many runs of each arm would probably decide, if the difference is what it looks like now.

    That is: find it (at the level `chance`, if it is at least `least`) or show that it lies inside ±`within`, with the
    probability POWER. None if more than MOST_RUNS would be needed. All in logarithms of the ratio. They would be
    made side by side, whenever those at hand were made, and scatter as these do: the scale follows them, as it does
    when they are judged.
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
