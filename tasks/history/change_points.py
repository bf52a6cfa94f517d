"""Finds the lasting changes of level in a series of values, one per night.

The method is Hunter's, now Apache Otava: E-divisive means finds candidates in windows, a two-sided t-test decides, and
a second pass removes the weakest points until the rest hold (M. Fleming, P. Kołaczkowski et al., "Hunter: Using Change
Point Detection to Hunt for Performance Regressions", ICPE 2023). Additions: outlier nights are removed first, a drift
is not reported as steps, and a series without noise is compared exactly. `docs/decisions/0009-change-points.md` has
the reasons and the measurements.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit  # type: ignore[import-untyped]  # its stubs are a package of their own

from configs.schema import Frozen
from tasks.history.energy import Array, best_split, pair_sums

MOST_CHANCE = 0.001  # Hunter's p-value
WEAK = 10  # factor on the p-value in the first pass
LEAST_NIGHTS = 3  # on each side of a change
WINDOW = 50  # nights; Hunter's
OUTLIER = 5.0  # robust standard deviations
NEIGHBOURS = 4  # nights on each side for judging an outlier
CONFIDENCE = 0.95
MOST_MEMORY = 0.9
MEMORY_NIGHTS = 8  # per level, needed to estimate the autocorrelation
CONSTANT_SHARE = 0.8  # share of equal neighbours from which a series counts as exact
SQRT_2 = 2.0**0.5
MAD_TO_SIGMA = float(ndtri(0.75))


class Change(Frozen):
    """The level is `before` up to night `index` − 1 and `after` from night `index` on."""

    index: int
    before: float  # mean of the nights since the previous change
    after: float
    low: float  # 95 % interval of after − before
    high: float
    p: float  # 0 in a series without noise

    @property
    def relative(self) -> float | None:
        """(after − before) / before; None for a level of 0."""
        return (self.after - self.before) / abs(self.before) if self.before else None


class Drift(Frozen):
    """A slope that explains the series better than steps do: per night, with its 95 % interval."""

    slope: float
    low: float
    high: float
    p: float


class Trend(Frozen):
    """The changes, drift and outliers of a series. Outliers belong to no level."""

    nights: int
    changes: tuple[Change, ...] = ()
    drift: Drift | None = None
    outliers: tuple[int, ...] = ()
    exact: bool = False  # the series has no noise, so every different value is a change
    too_few: bool = False  # not enough nights for any answer


def find_trend(values: Sequence[float], *, least_change: float = 0.0) -> Trend:
    """Return the trend of a series of finite values, oldest first.

    `least_change`: the least relative change to report. Raises ValueError for values that are not finite.
    """
    series = np.asarray(values, dtype=float)
    if not np.isfinite(series).all():
        raise ValueError("a series has values that are not finite: leave those nights out")
    if is_exact(series):
        return Trend(nights=len(series), changes=tuple(_exact_changes(series, least_change)), exact=True)
    outliers = find_outliers(series)
    kept = np.setdiff1d(np.arange(len(series)), outliers)
    calm = series[kept]
    too_few = len(calm) < 2 * LEAST_NIGHTS
    points = [] if too_few else _merge(calm, _split(calm), least_change)
    drift = find_drift(calm, points)
    if drift is not None:
        points = []
    memory = find_memory(calm, points) if points else 0.0
    return Trend(
        nights=len(series),
        changes=tuple(
            _change(calm, left, point, right, memory, index=int(kept[point]))
            for left, point, right in _sides(points, len(calm))
        ),
        drift=drift,
        outliers=tuple(int(i) for i in outliers),
        too_few=too_few,
    )


def is_exact(series: Array) -> bool:
    """Return whether most nights equal the previous one bit for bit: a count, a compiler's estimate, a seeded loss."""
    return len(series) >= 2 * LEAST_NIGHTS and float(np.mean(series[1:] == series[:-1])) >= CONSTANT_SHARE


def find_outliers(series: Array) -> NDArray[np.intp]:
    """Return the indices of nights far from the nights before and after, fewer than LEAST_NIGHTS in a row on one side.

    A Hampel identifier on each side: distance from the neighbours' median in robust standard deviations (L. Davies and
    U. Gather, "The Identification of Multiple Outliers", JASA 88 (1993)). The start or end of a level is no outlier;
    the first and last two nights are never outliers.
    """
    limit = OUTLIER * _noise(series)
    far = np.zeros(len(series))
    for i in range(2, len(series) - 2):
        sides = series[max(0, i - NEIGHBOURS) : i], series[i + 1 : i + 1 + NEIGHBOURS]
        distances = [float(series[i] - np.median(side)) for side in sides]
        if min(distances) > limit > 0:
            far[i] = 1
        elif max(distances) < -limit < 0:
            far[i] = -1
    found: list[int] = []
    for run in np.split(np.arange(len(series)), np.flatnonzero(np.diff(far)) + 1):
        if len(run) and far[run[0]] and len(run) < LEAST_NIGHTS:
            found += run.tolist()
    return np.asarray(found, dtype=np.intp)


def _noise(series: Array) -> float:
    """Return the night-to-night noise as a standard deviation, from neighbouring differences: levels do not matter."""
    if len(series) < 2:
        return 0.0
    return float(np.median(np.abs(np.diff(series)))) / (MAD_TO_SIGMA * SQRT_2)


def find_drift(series: Array, points: Sequence[int]) -> Drift | None:
    """Return the drift of a series if a straight line explains it better than its steps, else None.

    Compares by Schwarz's criterion (BIC), and requires a significant slope by Kendall's rank correlation
    (Mann–Kendall). The slope and its interval are Theil–Sen's.
    """
    n = len(series)
    if n < 4 * LEAST_NIGHTS:  # too few nights to tell a line from steps
        return None
    from scipy import stats  # type: ignore[import-untyped]  # takes 2 s to load, and a short series does not need it

    nights = np.arange(n, dtype=float)
    p = float(stats.kendalltau(nights, series).pvalue)
    if not p < MOST_CHANCE:
        return None
    line = stats.linregress(nights, series)
    straight = float(np.sum((series - line.intercept - line.slope * nights) ** 2))
    levels = np.split(series, list(points))
    stepped = float(sum(np.sum((level - level.mean()) ** 2) for level in levels))
    # parameters: slope and intercept; for each change a level and its start
    if _bic(straight, n, 2) >= _bic(stepped, n, 1 + 2 * len(points)):
        return None
    sen = stats.theilslopes(series, nights, CONFIDENCE)
    return Drift(slope=float(sen.slope), low=float(sen.low_slope), high=float(sen.high_slope), p=p)


def _bic(squares: float, n: int, parameters: int) -> float:
    return n * float(np.log(max(squares, np.finfo(float).tiny) / n)) + parameters * float(np.log(n))


def _split(series: Array) -> list[int]:
    """Hunter's first pass: windows that overlap by half, each split as long as a weak t-test agrees."""
    points: set[int] = set()
    start = 0
    while start < len(series):
        end = min(start + WINDOW, len(series))
        found = _split_window(series, start, end)
        points |= set(found)
        if end == len(series):
            break
        start = max([start + WINDOW // 2, *found])
    return sorted(points)


def _split_window(series: Array, start: int, end: int) -> list[int]:
    sums = pair_sums(series[start:end])
    points: list[int] = []
    while True:
        edges = [0, *points, end - start]
        splits = [
            (split[1], left, split[0], right)
            for left, right in pairwise(edges)
            if (split := best_split(sums, left, right, least=LEAST_NIGHTS)) is not None
        ]
        if not splits:
            break
        _, left, point, right = max(splits)
        chance, _, _ = _test(series[start + left : start + point], series[start + point : start + right])
        if not chance < WEAK * MOST_CHANCE:
            break
        points = sorted([*points, point])
    return [start + point for point in points]


def _merge(series: Array, points: list[int], least_change: float) -> list[int]:
    """Hunter's second pass: remove the least certain point, then the smallest, until the rest hold."""
    points = list(points)
    while points:
        memory = find_memory(series, points)
        judged = [_change(series, left, point, right, memory) for left, point, right in _sides(points, len(series))]
        worst = max(range(len(points)), key=lambda i: judged[i].p)
        if judged[worst].p < MOST_CHANCE:
            worst = min(range(len(points)), key=lambda i: _size(judged[i]))
            if _size(judged[worst]) >= least_change:
                return points
        del points[worst]
    return points


def find_memory(series: Array, points: Sequence[int]) -> float:
    """Return the autocorrelation at lag 1 within the levels, from 0 to 0.9.

    Corrected for the bias of short levels (M. G. Kendall, "Note on bias in the estimation of autocorrelation",
    Biometrika 41 (1954)); 0 for levels of fewer than MEMORY_NIGHTS nights, where it cannot be estimated.
    """
    levels = [level - level.mean() for level in np.split(series, list(points))]
    squares = sum(float(level @ level) for level in levels)
    if squares == 0 or len(series) < MEMORY_NIGHTS * len(levels):
        return 0.0
    seen = sum(float(level[1:] @ level[:-1]) for level in levels) / squares
    share = len(levels) / len(series)
    return float(np.clip((seen + share) / (1 - 3 * share), 0.0, MOST_MEMORY))


def _sides(points: Sequence[int], length: int) -> list[tuple[int, int, int]]:
    edges = [0, *points, length]
    return list(zip(edges, points, edges[2:], strict=False))


def _change(series: Array, left: int, point: int, right: int, memory: float, *, index: int | None = None) -> Change:
    before, after = series[left:point], series[point:right]
    p, low, high = _test(before, after, memory)
    return Change(
        index=point if index is None else index,
        before=float(before.mean()),
        after=float(after.mean()),
        low=low,
        high=high,
        p=p,
    )


def _test(before: Array, after: Array, memory: float = 0.0) -> tuple[float, float, float]:
    """Return (p, low, high) of Student's two-sided t-test.

    Assumes equal noise on both sides, the machine's, so that three nights suffice. Correlated nights count as
    n(1 − ρ)/(1 + ρ) (G. V. Bayley and J. M. Hammersley, "The 'Effective' Number of Independent Observations", JRSS 8
    (1946)).
    """
    difference = float(after.mean() - before.mean())
    squares = float(np.sum((before - before.mean()) ** 2) + np.sum((after - after.mean()) ** 2))
    if squares == 0:
        return (0.0 if difference else 1.0), difference, difference
    share = (1 - memory) / (1 + memory)
    freedom = max((len(before) + len(after)) * share - 2, 1.0)
    variance = squares / (len(before) + len(after) - 2)
    error = float(np.sqrt(variance * (1 / len(before) + 1 / len(after)) / share))
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    reach = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    return p, difference - reach, difference + reach


def _size(change: Change) -> float:
    return float("inf") if change.relative is None else abs(change.relative)


def _exact_changes(series: Array, least_change: float) -> list[Change]:
    """Return a change for every value that differs from the previous night's."""
    found = [
        Change(index=point, before=before, after=after, low=after - before, high=after - before, p=0.0)
        for point, (before, after) in enumerate(pairwise(series.tolist()), start=1)
        if before != after
    ]
    return [change for change in found if _size(change) >= least_change]
