"""Turns the step times of one run into its level, twice: as its steady steps and as its median step have it."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tasks.records import StepLevel, StepLevels

QUICK = 0.1  # the quantile of the steady steps
MIDDLE = 0.5
LEAST_STEPS = 2
FEW = 3  # steps that lie together by no accident
CLOSE, ENOUGH = 1.25, 0.25  # usual is the quickest time that so many of the steps take, or up to so much longer
TOO_QUICK = 0.8  # of the usual step: no step is that much quicker, its neighbours took the time for it
SHORTEST = 3  # steps of a stretch with a level of its own
LONGER = 1.25  # times: the next stretch length
MOST_PLACES = 500  # of a run, that a stretch can begin at: more steps are taken together
SHUFFLES = 1000  # one in so many runs that keep their level is taken to leave it
FIRST = 100  # of them: enough to clear most runs that keep their level
RESAMPLES = 100
SEED = 20260418
MOST_STEPS = 5000  # of a longer run, the first ones suffice

type Seconds = NDArray[np.float64]


def find_levels(seconds: Seconds, *, unit: float = 0.0) -> StepLevels | None:
    """The levels of one run out of its steps but the first, in order; `unit`: of the last printed digit.

    Other work on a machine only ever adds time, so the 10 % quantile of the steps varies far less between equal runs
    than their median does; time that is added to most steps shows in the median. None with fewer than two usable steps.
    """
    timed = seconds[np.isfinite(seconds) & (seconds > 0)]
    usable = usable_steps(timed)
    if usable.size < LEAST_STEPS:
        return None
    rounding = unit / 12**0.5  # the standard deviation of what rounding adds
    found = []
    for steps, quantile in ((usable, QUICK), (timed, MIDDLE)):
        finer = spread_rounded(steps, unit)
        level = float(np.quantile(finer, quantile))
        found.append(StepLevel(seconds=level, error=float(np.hypot(block_error(finer, quantile), rounding / level))))
    return StepLevels(
        quick=found[0],
        middle=found[1],
        slow=float(np.mean(timed > CLOSE * usual_step(timed))),
        shift=find_shift(finer),
        mean=float(timed.mean()),
    )


def spread_rounded(seconds: Seconds, unit: float) -> Seconds:
    """The steps, those printed alike spread evenly over the times that are printed so.

    A quantile of rounded steps is one of the printed values, and jumps by a whole unit from run to run; of spread ones
    it follows how many steps were rounded up and down. Steps that are all printed alike stay as they are. The order of
    equal steps is drawn, with a fixed seed.
    """
    values, place, counts = np.unique(seconds, return_inverse=True, return_counts=True)
    if not unit or values.size in (1, seconds.size):
        return seconds
    order = np.lexsort((np.random.default_rng(SEED).random(seconds.size), place))
    rank = np.empty(seconds.size)
    rank[order] = np.concatenate([np.arange(count) for count in counts])
    return np.asarray(seconds + unit * ((rank + 0.5) / counts[place] - 0.5))


def find_shift(seconds: Seconds) -> float:
    """By how much the level of a run changes inside it, as a logarithm; 0 where chance can have done it.

    Throttling, a clock that flips and a drift have one thing in common: some stretch of steps differs from the rest by
    more than any stretch does where the same steps come in a random order. `usual_step` bounds what a stall adds.
    The seed is fixed. Source: binary segmentation by permutation (A. Olshen and others, Biostatistics 5 (2004)).
    """
    group = -(-seconds.size // MOST_PLACES)
    steps = np.median(seconds[: seconds.size // group * group].reshape(-1, group), axis=1)
    if steps.size < 2 * SHORTEST:
        return 0.0
    logs = np.log(np.clip(steps / usual_step(steps), TOO_QUICK, CLOSE))
    logs -= logs.mean()
    most, (start, length) = _most_apart(logs[None])
    orders = draw_orders(logs.size)
    for some in (orders[:FIRST], orders[FIRST:]):
        if most[0] <= _most_apart(logs[some])[0].max():
            return 0.0
    inside = np.zeros(logs.size, dtype=bool)
    inside[start : start + length] = True
    return abs(float(np.log(np.median(steps[inside]) / np.median(steps[~inside]))))


def _most_apart(logs: Seconds) -> tuple[Seconds, tuple[int, int]]:
    """Return how far the most different stretch of each row lies from its rest, and the first row's start and length.

    logs: [rows, steps], the mean of each row is 0.
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
    """Lengths of stretches to look at, each a quarter longer than the one before, up to half of n steps."""
    count = int(np.log(n / 2 / SHORTEST) / np.log(LONGER)) + 1
    return sorted({round(SHORTEST * LONGER**power) for power in range(count)})


@lru_cache(maxsize=4)
def draw_orders(n: int) -> NDArray[np.int64]:
    """[SHUFFLES, n]: random orders of n steps."""
    return np.random.default_rng(SEED).permuted(np.tile(np.arange(n), (SHUFFLES, 1)), axis=1)


def usable_steps(seconds: Seconds) -> Seconds:
    """The steps that can be steady: a dispatch artefact is not, its time stands with another step."""
    timed = seconds[np.isfinite(seconds) & (seconds > 0)]
    return timed[timed >= TOO_QUICK * usual_step(timed)] if timed.size else timed


def usual_step(seconds: Seconds) -> float:
    """The quickest time that a quarter of the steps take, up to a quarter longer; stalls and artefacts lie apart.

    Where no quarter of the steps lies that close together it is the median.
    """
    values = np.sort(seconds)
    count = min(max(FEW, int(np.ceil(ENOUGH * values.size))), values.size)
    close = values[count - 1 :] <= CLOSE * values[: values.size - count + 1]
    return float(values[int(np.argmax(close))] if close.any() else np.median(values))


def block_error(values: Seconds, quantile: float) -> float:
    """Return the relative standard error of a quantile, by resampling blocks: neighbouring steps are not independent.

    The circular block bootstrap of D. Politis and J. Romano (1992) with blocks of √n steps, and a fixed seed: the same
    steps always have the same error. The error is half of the distance between the 16 % and the 84 % quantile of the
    resampled values, so that a sample of mostly stalls does not count.
    """
    whole = values.size
    values = values[:MOST_STEPS]
    n = values.size
    drawn = np.sort(
        np.log(values)[draw_blocks(n)], axis=1
    )  # the quantile by hand: numpy's own takes three times as long
    at = quantile * (n - 1)
    below, above = drawn[:, int(at)], drawn[:, min(int(at) + 1, n - 1)]
    low, high = np.quantile(below + (at - int(at)) * (above - below), (0.16, 0.84))
    return float((high - low) / 2 * (n / whole) ** 0.5)


@lru_cache(maxsize=4)  # the runs of a comparison have as many steps
def draw_blocks(n: int) -> NDArray[np.int64]:
    """[RESAMPLES, n]: which of n values each draw holds, in circular blocks of √n."""
    block = max(1, round(n**0.5))
    starts = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, -(-n // block), 1))
    return (starts + np.arange(block)).reshape(RESAMPLES, -1)[:, :n] % n
