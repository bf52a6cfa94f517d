"""Turns the step times of one run into its level, twice: as its quick steps and as its middle steps have it."""

from math import log

import numpy as np
from numpy.typing import NDArray

from configs.schema import Frozen

QUICK = 0.1  # the quantile of the quick steps
MIDDLE = 0.5
LEAST_STEPS = 2
PAID_BY_OTHERS = 0.5  # of the median: no real step is that quick, its neighbours took the time for it
RESAMPLES = 200
SEED = 20260418
MOST_STEPS = 5000  # of a longer run the first tell what all of them would

type Seconds = NDArray[np.float64]


class Level(Frozen):
    """A level in seconds and its standard error within the run, relative to it."""

    seconds: float
    error: float


class Levels(Frozen):
    """`quick`: what the code needs when nothing else disturbs it. `middle`: what half of its steps take at most."""

    quick: Level
    middle: Level

    @property
    def unrest(self) -> float:
        """How far the middle steps lie above the quick ones: the natural logarithm of their ratio, 0 or more."""
        return max(0.0, log(self.middle.seconds / self.quick.seconds))


def find_levels(seconds: Seconds, *, unit: float = 0.0) -> Levels | None:
    """The levels of one run out of its steps but the first, in order; `unit` is that of the last printed digit.

    Other work on a machine only ever adds time, so the 10 % quantile of the steps varies far less between equal runs
    than their median does; what is added to most steps shows in the median. None with fewer than two usable steps.
    """
    usable = usable_steps(seconds)
    if usable.size < LEAST_STEPS:
        return None
    quick, middle = float(np.quantile(usable, QUICK)), float(np.median(seconds[np.isfinite(seconds)]))
    errors = block_errors(usable)
    rounding = unit / 12**0.5  # the standard deviation of what rounding adds
    return Levels(
        quick=Level(seconds=quick, error=float(np.hypot(errors[0], rounding / quick))),
        middle=Level(seconds=middle, error=float(np.hypot(errors[1], rounding / middle))),
    )


def usable_steps(seconds: Seconds) -> Seconds:
    """The steps that can be quick ones: a dispatch artefact is none, its time stands with another step."""
    timed = seconds[np.isfinite(seconds) & (seconds > 0)]
    return timed[timed >= PAID_BY_OTHERS * np.median(timed)] if timed.size else timed


def block_errors(values: Seconds) -> Seconds:
    """Relative standard errors of both quantiles: neighbouring steps are not independent, so blocks are resampled.

    The circular block bootstrap of D. Politis and J. Romano (1992) with blocks of √n steps, and a fixed seed: the same
    steps always have the same error.
    """
    whole = values.size
    values = values[:MOST_STEPS]
    n = values.size
    block = max(1, round(n**0.5))
    count = -(-n // block)
    starts = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, count, 1))
    index = (starts + np.arange(block)).reshape(RESAMPLES, -1)[:, :n] % n
    drawn = np.quantile(np.log(values)[index], (QUICK, MIDDLE), axis=1)
    errors: Seconds = drawn.std(axis=1) * (n / whole) ** 0.5
    return errors
