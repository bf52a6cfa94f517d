"""Turns the step times of one run into two levels: of its steady steps, and of its middle steps."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tasks.records import StepLevel, StepLevels

QUICK = 0.1  # the quantile of the steady steps
REACH = 3.0  # of the middle steps from the median step, in distances of a quantile
MOST_REACH = 1.4  # times longer or shorter than the median step
LEAST_STEPS = 2
FEW = 3  # steps that lie together by no accident
CLOSE, ENOUGH = 1.25, 0.25  # usual is the quickest time that so many of the steps take, or up to so much longer
TOO_QUICK = 0.8  # of the usual step: no step is that much quicker, its neighbours took the time for it
SHORTEST = 3  # steps of a stretch with a level of its own
LONGER = 1.25  # times: the next stretch length
MOST_PLACES = 500  # of a run, that a stretch can begin at: more steps are taken together
FIFTHS = 5  # parts of a run whose levels are compared if the level changes
SHUFFLES = 1000  # one in so many runs that keep their level is taken to leave it
FIRST = 100  # of them: enough to clear most runs that keep their level
RESAMPLES = 100
SEED = 20260418
MOST_STEPS = 5000  # of a longer run, the first ones suffice

type Seconds = NDArray[np.float64]


def find_levels(seconds: Seconds, *, unit: float = 0.0) -> StepLevels | None:
    """Return the levels of one run from its steps but the first, in order; None with fewer than two usable steps.

    unit: of the last printed digit. Other work on a machine only adds time, so the 10 % quantile of the steps varies
    far less between equal runs than the middle steps do. Time that is added to most steps shows in the middle steps.
    """
    timed = seconds[np.isfinite(seconds) & (seconds > 0)]
    usable = usable_steps(timed)
    if usable.size < LEAST_STEPS:
        return None
    rounding = unit / 12**0.5  # the standard deviation of what rounding adds
    found = []
    for steps, level_of in ((usable, steady_level), (timed, middle_level)):
        finer = spread_rounded(steps, unit)
        level = float(np.exp(level_of(np.sort(np.log(finer)))))
        found.append(StepLevel(seconds=level, error=float(np.hypot(block_error(finer, level_of), rounding / level))))
    return StepLevels(
        quick=found[0],
        middle=found[1],
        slow=float(np.mean(timed > CLOSE * usual_step(timed))),
        shift=find_shift(finer),
        mean=float(timed.mean()),
    )


def steady_level(logs: Seconds) -> Seconds:
    """Return the 10 % quantile of each row. logs: [..., steps], sorted logarithms."""
    return _quantile(logs, QUICK)


def middle_level(logs: Seconds) -> Seconds:
    """Return the mean of each row's values near its median. logs: [..., steps], sorted logarithms.

    The mean of many calm steps varies less than their median. Slow steps beside most calm ones are not near: the
    distance is REACH × that of the 10 % or the 90 % quantile, whichever is closer, and at most MOST_REACH.
    """
    median = logs[..., (logs.shape[-1] - 1) // 2]  # the lower one of two, so that one step at least is near
    closer = np.minimum(median - _quantile(logs, QUICK), _quantile(logs, 1 - QUICK) - median)
    near = np.clip(REACH * closer, 0, np.log(MOST_REACH))  # of two steps, the quantiles lie between
    return np.asarray(logs.mean(axis=-1, where=np.abs(logs - median[..., None]) <= near[..., None]))


def _quantile(logs: Seconds, share: float) -> Seconds:
    """Return a quantile of each row; numpy's own takes three times as long. logs: [..., steps], sorted."""
    at = share * (logs.shape[-1] - 1)
    below, above = logs[..., int(at)], logs[..., min(int(at) + 1, logs.shape[-1] - 1)]
    return np.asarray(below + (at - int(at)) * (above - below))


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
    """Return the change of a run's level inside it, as a logarithm; 0 if chance can explain it.

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
    # a drift has moved further at its ends than the means of its halves show
    parts = np.array_split(steps, min(FIFTHS, steps.size // SHORTEST))
    levels = np.log([np.median(part) for part in parts])
    change = np.log(np.median(steps[inside]) / np.median(steps[~inside]))
    return float(max(abs(change), np.ptp(levels)))


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


def block_error(values: Seconds, level_of: Callable[[Seconds], Seconds]) -> float:
    """Return the relative standard error of a level, by resampling blocks: neighbouring steps are not independent.

    The circular block bootstrap of D. Politis and J. Romano (1992) with blocks of √n steps, and a fixed seed: the same
    steps always have the same error. The error is half of the distance between the 16 % and the 84 % quantile of the
    resampled values, so that a sample of mostly stalls does not count.
    """
    whole = values.size
    values = values[:MOST_STEPS]
    n = values.size
    drawn = np.sort(np.log(values)[draw_blocks(n)], axis=1)
    low, high = np.quantile(level_of(drawn), (0.16, 0.84))
    return float((high - low) / 2 * (n / whole) ** 0.5)


@lru_cache(maxsize=4)  # the runs of a comparison have as many steps
def draw_blocks(n: int) -> NDArray[np.int64]:
    """[RESAMPLES, n]: which of n values each draw holds, in circular blocks of √n."""
    block = max(1, round(n**0.5))
    starts = np.random.default_rng(SEED).integers(0, n, (RESAMPLES, -(-n // block), 1))
    return (starts + np.arange(block)).reshape(RESAMPLES, -1)[:, :n] % n
