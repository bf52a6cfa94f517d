"""Turns the levels of two arms' runs into a difference with its interval, chance and what more runs would show."""

from functools import cached_property
from math import sqrt

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit  # type: ignore[import-untyped]  # scipy.stats takes 2 s to load

from configs.schema import Frozen
from tasks.diff.noise import FINEST, Noise

CONFIDENCE = 0.99  # of the intervals that are shown, and that *same* is earned by
POWER = 0.8  # the chance with which the runs that are asked for should decide
MOST_RUNS = 100  # of one arm: more is not asked for


class Sample(Frozen):
    """One level per run in seconds, in the order the runs were made, with the errors within the runs (relative)."""

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    noise: Noise  # of a pair of equal runs
    error: float = 0.0  # of one run: what its own steps leave open
    days_apart: float = 0.0  # what lies between the arms beside that, where their runs were no neighbours


class Effect(Frozen):
    """candidate / baseline − 1 with its interval, as natural logarithms of the ratio; `p` of no difference."""

    estimate: float
    scale: float  # of the difference between one run of each arm
    df: float
    runs: tuple[int, int]
    noise: Noise
    days_apart: float = 0.0

    @cached_property
    def error(self) -> float:
        """The standard error of the estimate."""
        return sqrt(self.scale**2 * share_of_pair(*self.runs) + self.days_apart**2)

    @property
    def p(self) -> float:
        """The chance of an estimate as far from 0 if there is no difference; both sides."""
        return float(2 * stdtr(self.df, -abs(self.estimate) / self.error))

    def interval(self) -> tuple[float, float]:
        """The ends between which the difference lies with CONFIDENCE."""
        half = float(stdtrit(self.df, (1 + CONFIDENCE) / 2)) * self.error
        return self.estimate - half, self.estimate + half


def share_of_pair(baseline: int, candidate: int) -> float:
    """The variance of the difference of two means of so many runs, that of one run of each being 1."""
    return (1 / baseline + 1 / candidate) / 2


def measure_effect(sample: Sample) -> Effect:
    """The mean difference of two arms, with the noise that the runs themselves and what was known before show.

    Runs that were neighbours in time form pairs, which share whatever the machine was doing. Where the arms were run at
    other times, or not equally often, nothing is shared: the difference of their means, with what lies between days.
    The variance of a pair is what the runs show and what was known (`Noise`), each with the weight of its degrees of
    freedom; what the steps of single runs leave open is added to what was known.
    """
    left, right = np.log(np.asarray(sample.baseline)), np.log(np.asarray(sample.candidate))
    paired = left.size == right.size and not sample.days_apart
    if paired:
        squares, seen_df = float(np.sum((right - left - np.mean(right - left)) ** 2)), left.size - 1
    else:  # a pair of independent runs has the variance of both
        squares = 2 * float(np.sum((left - left.mean()) ** 2) + np.sum((right - right.mean()) ** 2))
        seen_df = left.size + right.size - 2
    noise = sample.noise
    known = noise.scale**2 + 2 * sample.error**2
    df = noise.df + seen_df
    return Effect(
        estimate=float(right.mean() - left.mean()),
        scale=max(sqrt((noise.df * known + squares) / df), FINEST),
        df=df,
        runs=(left.size, right.size),
        noise=noise,
        days_apart=sample.days_apart,
    )


def runs_wanted(effect: Effect, *, least: float, within: float, chance: float) -> int | None:
    """How many runs of each arm would probably decide, if the difference is what it looks like now.

    That is: find it (at the level `chance`, if it is at least `least`) or show that it lies inside ±`within`, with the
    probability POWER. None if more than MOST_RUNS would be needed. All in logarithms of the ratio. They would be
    made side by side, whenever those at hand were made.
    """
    size, lucky = abs(effect.estimate), float(ndtri(POWER))
    runs = np.arange(max(effect.runs) + 1, MOST_RUNS + 1)
    df, error = effect.noise.df + runs - 1, effect.scale / np.sqrt(runs)
    found = (size >= least) & (size >= error * (lucky - stdtrit(df, chance / 2)))
    inside = within - size >= error * (lucky - stdtrit(df, (1 - CONFIDENCE) / 2))
    enough = runs[found | inside]
    return int(enough[0]) if enough.size else None
