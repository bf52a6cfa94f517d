"""Computes a run's levels of step times: steady, the 10 % quantile; typical, the mean near the median. Also a shift."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tasks.records.run_facts import StepLevel, StepLevels

QUICK = 0.1  # the quantile that is the steady level
REACH = 3.0  # see `middle_level`
MAX_REACH = 1.4  # largest ratio between a typical step and the median
MIN_STEPS = 2  # fewest usable steps of a run with levels
FEW = 3  # fewest steps with close times that make a usual step
CLOSE, ENOUGH = 1.25, 0.25  # usual step: the shortest time t with a share ENOUGH of the steps between t and CLOSE × t
TOO_QUICK = 0.8  # share of the usual step: a shorter step is a dispatch artefact; a neighbour has its missing time
MIN_STRETCH = 3  # fewest steps of a stretch (consecutive steps) that can have a level of its own
LONGER = 1.25  # ratio of consecutive stretch lengths in the search
MAX_PLACES = 500  # limit of positions at which a stretch can begin; a longer run's steps are grouped
FIFTHS = 5  # limit of parts into which a run with a shift is cut, to compare their levels
SHUFFLES = 1000  # number of random orders of the steps: the false alarm rate is about 1 in SHUFFLES
FIRST_SHUFFLES = 100  # number of random orders that are tried first; for most runs without a shift, these suffice
RESAMPLES = 100  # number of bootstrap samples
SEED = 20260418  # of all random numbers here
MAX_STEPS = 5000  # limit of resampled steps; of a longer run, the first ones are resampled

type Seconds = NDArray[np.float64]


def find_levels(seconds: Seconds, *, unit: float = 0.0) -> StepLevels | None:
    """Return the levels of one run from the seconds of its steps after the first; None if fewer than two are usable.

    unit: one unit of the last printed digit, in seconds; 0: exact. Other work on a machine only adds time, so the
    steady level varies far less between equal runs than the typical one. Time that is added to most steps, but not to
    the quickest tenth, shows only in the typical level.
    """
    timed = seconds[np.isfinite(seconds) & (seconds > 0)]
    usable = usable_steps(timed)
    if usable.size < MIN_STEPS:
        return None
    rounding = unit / 12**0.5  # standard deviation of the rounding error
    levels = []
    for steps, level_of in ((usable, steady_level), (timed, middle_level)):
        finer = spread_rounded(steps, unit)
        level = float(np.exp(level_of(np.sort(np.log(finer)))))
        levels.append(StepLevel(seconds=level, error=float(np.hypot(block_error(finer, level_of), rounding / level))))
    return StepLevels(
        quick=levels[0],
        middle=levels[1],
        slow=float(np.mean(timed > CLOSE * usual_step(timed))),
        shift=find_shift(finer),
        mean=float(timed.mean()),
    )


def steady_level(logs: Seconds) -> Seconds:
    """Return the steady level: the 10 % quantile of each row. logs: [..., steps], sorted logarithms."""
    return _quantile(logs, QUICK)


def middle_level(logs: Seconds) -> Seconds:
    """Return the typical level: the mean of each row's values near its median. logs: [..., steps], sorted logarithms.

    The mean of many undisturbed steps varies less than their median. A value is near if its distance from the median is
    at most REACH × the distance of the closer of the 10 % and the 90 % quantile, and at most log(MAX_REACH). This
    leaves out slow steps.
    """
    median = logs[..., (logs.shape[-1] - 1) // 2]  # of two middle values the lower, so that at least one value is near
    closer = np.minimum(median - _quantile(logs, QUICK), _quantile(logs, 1 - QUICK) - median)
    near = np.clip(REACH * closer, 0, np.log(MAX_REACH))  # with two steps, `closer` is negative
    return np.asarray(logs.mean(axis=-1, where=np.abs(logs - median[..., None]) <= near[..., None]))


def _quantile(logs: Seconds, share: float) -> Seconds:
    """Return a quantile of each row; numpy.quantile takes three times as long. logs: [..., steps], sorted."""
    at = share * (logs.shape[-1] - 1)
    below, above = logs[..., int(at)], logs[..., min(int(at) + 1, logs.shape[-1] - 1)]
    return np.asarray(below + (at - int(at)) * (above - below))


def spread_rounded(seconds: Seconds, unit: float) -> Seconds:
    """Return the seconds, with equal printed values spread evenly over the interval that is rounded to them.

    A quantile of rounded values is one of the printed values, so it jumps by a complete unit from run to run. After
    spreading, it changes gradually with the number of steps that were rounded up. Nothing changes if all values are
    equal, all are different, or `unit` is 0. The order of equal values is random, with a fixed seed.
    """
    values, place, counts = np.unique(seconds, return_inverse=True, return_counts=True)
    if not unit or values.size in (1, seconds.size):
        return seconds
    order = np.lexsort((np.random.default_rng(SEED).random(seconds.size), place))
    rank = np.empty(seconds.size)
    rank[order] = np.concatenate([np.arange(count) for count in counts])
    return np.asarray(seconds + unit * ((rank + 0.5) / counts[place] - 0.5))


def find_shift(seconds: Seconds) -> float:
    """Return the size of the change of the step time level during a run, as a logarithm, never negative.

    0 if chance can explain it, or with fewer than 2 × MIN_STRETCH steps.

    Throttling, another clock state and a drift have one thing in common: some stretch of steps differs from the rest by
    more than any stretch of the same steps in random order. Clipping near `usual_step` limits the effect of stalls.
    The seed is fixed. Source: binary segmentation by permutation (A. Olshen and others, Biostatistics 5 (2004)).
    """
    group = -(-seconds.size // MAX_PLACES)
    steps = np.median(seconds[: seconds.size // group * group].reshape(-1, group), axis=1)
    if steps.size < 2 * MIN_STRETCH:
        return 0.0
    logs = np.log(np.clip(steps / usual_step(steps), TOO_QUICK, CLOSE))
    logs -= logs.mean()
    most, (start, length) = _most_apart(logs[None])
    orders = draw_orders(logs.size)
    for some in (orders[:FIRST_SHUFFLES], orders[FIRST_SHUFFLES:]):
        if most[0] <= _most_apart(logs[some])[0].max():
            return 0.0
    inside = np.zeros(logs.size, dtype=bool)
    inside[start : start + length] = True
    # the ends of a drift differ by more than the stretch and the rest, so parts of the run are compared too
    parts = np.array_split(steps, min(FIFTHS, steps.size // MIN_STRETCH))
    levels = np.log([np.median(part) for part in parts])
    change = np.log(np.median(steps[inside]) / np.median(steps[~inside]))
    return float(max(abs(change), np.ptp(levels)))


def _most_apart(logs: Seconds) -> tuple[Seconds, tuple[int, int]]:
    """Return each row's largest distance of a stretch from the rest, and the first row's stretch with that distance.

    logs: [rows, steps], the mean of each row is 0. A stretch is (index of its first step, length).
    """
    n = logs.shape[1]
    sums = np.cumsum(np.pad(logs, ((0, 0), (1, 0))), axis=1)
    most, where = np.zeros(len(logs)), (0, 0)
    for length in stretches(n):
        apart = np.abs(sums[:, length:] - sums[:, :-length]) / (length * (1 - length / n)) ** 0.5
        here = apart.max(axis=1)
        where = (int(apart[0].argmax()), length) if here[0] > most[0] else where
        most = np.maximum(most, here)
    return most, where


def stretches(n: int) -> list[int]:
    """Return the stretch lengths to search, each about a quarter above the previous one, up to half of n steps."""
    count = int(np.log(n / 2 / MIN_STRETCH) / np.log(LONGER)) + 1
    return sorted({round(MIN_STRETCH * LONGER**power) for power in range(count)})


@lru_cache(maxsize=4)
def draw_orders(n: int) -> NDArray[np.int64]:
    """Return [SHUFFLES, n]: random orders of the indices of n steps."""
    return np.random.default_rng(SEED).permuted(np.tile(np.arange(n), (SHUFFLES, 1)), axis=1)


def usable_steps(seconds: Seconds) -> Seconds:
    """Return the finite, positive times of steps, without dispatch artefacts.

    Such an artefact is a step so short that a neighbour must have part of its time.
    """
    timed = seconds[np.isfinite(seconds) & (seconds > 0)]
    return timed[timed >= TOO_QUICK * usual_step(timed)] if timed.size else timed


def usual_step(seconds: Seconds) -> float:
    """Return the shortest time t for which a quarter of the steps take t to 1.25 t, or the median if there is none.

    A quarter counts as at least FEW steps, or as all steps of a run with fewer.
    Stalls and dispatch artefacts are assumed to be too few, or too far apart, to be the usual step.
    """
    values = np.sort(seconds)
    count = min(max(FEW, int(np.ceil(ENOUGH * values.size))), values.size)
    close = values[count - 1 :] <= CLOSE * values[: values.size - count + 1]
    return float(values[int(np.argmax(close))] if close.any() else np.median(values))


def block_error(values: Seconds, level_of: Callable[[Seconds], Seconds]) -> float:
    """Return the relative standard error of a level, from resampled blocks, as neighbouring steps are not independent.

    Method: circular block bootstrap (D. Politis, J. Romano, 1992) with blocks of √n steps and a fixed seed. Error: half
    of the distance between the 16 % and the 84 % quantile of the resampled levels, so that samples with mostly stalls
    do not matter. The error of a run with more than MAX_STEPS steps is scaled to its length.
    """
    whole = values.size
    values = values[:MAX_STEPS]
    n = values.size
    drawn = np.sort(np.log(values)[draw_blocks(n)], axis=1)
    low, high = np.quantile(level_of(drawn), (0.16, 0.84))
    return float((high - low) / 2 * (n / whole) ** 0.5)


@lru_cache(maxsize=4)  # most runs of a comparison have equally many steps
def draw_blocks(n: int) -> NDArray[np.int64]:
    """Return [RESAMPLES, n]: the indices of the n values in each bootstrap sample, in circular blocks of √n."""
    block = max(1, round(n**0.5))
    starts = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, -(-n // block), 1))
    return (starts + np.arange(block)).reshape(RESAMPLES, -1)[:, :n] % n
