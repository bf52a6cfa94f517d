"""Finds lasting changes of level, a drift and outliers in a series with one value per night. A night is one comparison.

The method is that of Hunter, now Apache Otava: the algorithm "E-divisive means" finds candidates in windows, a
two-sided t-test judges them, and a second pass removes the weakest candidates until all are significant (M. Fleming,
P. Kołaczkowski et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", ICPE 2023).
Additions: outlier nights are removed first, a drift is not reported as steps, and in a series without noise every
difference is a change. `docs/decisions/0009-change-points.md` contains the reasons and the measurements.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit  # type: ignore[import-untyped]  # its stubs are a separate package

from configs.frozen import Frozen

type Array = NDArray[np.float64]

MAX_P_VALUE = 0.001  # changes have smaller p-values; Hunter's value
WEAK = 10  # factor on MAX_P_VALUE in the first pass
MIN_NIGHTS = 3  # smallest number of nights on each side of a change, unless the series is exact
WINDOW = 50  # nights per window; Hunter's value
OUTLIER = 5.0  # least distance of an outlier, in robust standard deviations
NEIGHBOURS = 4  # nights on each side that an outlier is compared with
CONFIDENCE = 0.95  # of all intervals
MAX_AUTOCORRELATION = 0.9  # largest autocorrelation that is assumed
AUTOCORRELATION_NIGHTS = 8  # average nights per level that are needed to estimate the autocorrelation
CONSTANT_SHARE = 0.8  # a series is exact if at least this fraction of nights equals the night before
MAD_PER_SIGMA = float(ndtri(0.75))  # median absolute deviation of a normal distribution, in standard deviations


class Change(Frozen):
    """One change of level. In an exact series, the levels are the values of the two nights around the change."""

    index: int  # of the first night of the new level, in the series
    before: float  # mean of the nights from the previous change to this one
    after: float  # mean of the nights from this change to the next one
    low: float  # ends of the 95 % interval of after − before
    high: float
    p: float  # p-value of the t-test; 0 without noise on both sides

    @property
    def relative(self) -> float | None:
        """(after − before) / |before|; None if `before` is 0."""
        return (self.after - self.before) / abs(self.before) if self.before else None


class Drift(Frozen):
    """A straight line that fits the series better than changes of level: its slope per night, with a 95 % interval."""

    slope: float
    low: float
    high: float
    p: float  # p-value of Kendall's rank correlation


class Trend(Frozen):
    """The changes, drift and outliers of a series. Outliers are excluded from all levels."""

    nights: int  # number of nights in the series
    changes: tuple[Change, ...] = ()
    drift: Drift | None = None
    outliers: tuple[int, ...] = ()  # indices in the series
    exact: bool = False  # the series has no noise, so every difference of at least `least_change` is a change
    too_few: bool = False  # fewer than 2 × MIN_NIGHTS nights that are no outliers, so no change can be found


def find_trend(values: Sequence[float], *, least_change: float = 0.0) -> Trend:
    """Return the trend of a series of finite values, oldest first.

    least_change: smaller relative changes are not reported. Raises ValueError for values that are not finite.
    """
    series = np.asarray(values, dtype=float)
    if not np.isfinite(series).all():
        raise ValueError("a series has values that are not finite: leave those nights out")
    if _is_exact(series):
        return Trend(nights=len(series), changes=tuple(_exact_changes(series, least_change)), exact=True)
    outliers = _find_outliers(series)
    kept = np.setdiff1d(np.arange(len(series)), outliers)
    calm = series[kept]
    too_few = len(calm) < 2 * MIN_NIGHTS
    points = [] if too_few else _merge(calm, _split(calm), least_change)
    drift = _find_drift(calm, points)
    if drift is not None:
        points = []
    autocorrelation = estimate_autocorrelation(calm, points) if points else 0.0
    return Trend(
        nights=len(series),
        changes=tuple(
            _change(calm, left, point, right, autocorrelation).replace(index=int(kept[point]))
            for left, point, right in _sides(points, len(calm))
        ),
        drift=drift,
        outliers=tuple(int(i) for i in outliers),
        too_few=too_few,
    )


def _is_exact(series: Array) -> bool:
    """Return whether at least CONSTANT_SHARE of the values equal the one before, as counts and compiler estimates do.

    False for fewer than 2 × MIN_NIGHTS values.
    """
    return len(series) >= 2 * MIN_NIGHTS and float(np.mean(series[1:] == series[:-1])) >= CONSTANT_SHARE


def _find_outliers(series: Array) -> NDArray[np.intp]:
    """Return the indices of outliers: nights far above, or far below, both the nights before and the nights after.

    The distance is measured from the median of the neighbours on each side, in robust standard deviations (Hampel
    identifier; L. Davies and U. Gather, "The Identification of Multiple Outliers", JASA 88 (1993)). MIN_NIGHTS or
    more far nights in a row are a level and not outliers. The first two and the last two nights are never outliers.
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
        if len(run) and far[run[0]] and len(run) < MIN_NIGHTS:
            found += run.tolist()
    return np.asarray(found, dtype=np.intp)


def _noise(series: Array) -> float:
    """Return the standard deviation of the noise, from differences of neighbouring nights, in which levels cancel."""
    if len(series) < 2:
        return 0.0
    return float(np.median(np.abs(np.diff(series)))) / (MAD_PER_SIGMA * sqrt(2))


def _find_drift(series: Array, points: Sequence[int]) -> Drift | None:
    """Return the drift of a series; None if a straight line fits it no better than changes of level at `points`.

    Compares by Schwarz's criterion (BIC), and requires 4 × MIN_NIGHTS nights and a significant slope by Kendall's rank
    correlation (Mann–Kendall). The slope and its interval are Theil–Sen's.
    """
    n = len(series)
    if n < 4 * MIN_NIGHTS:  # too few nights to distinguish a line from steps
        return None
    from scipy import stats  # type: ignore[import-untyped]  # takes 2 s to import; short series do not need it

    nights = np.arange(n, dtype=float)
    p = float(stats.kendalltau(nights, series).pvalue)
    if not p < MAX_P_VALUE:
        return None
    line = stats.linregress(nights, series)
    straight = float(np.sum((series - line.intercept - line.slope * nights) ** 2))
    levels = np.split(series, list(points))
    stepped = float(sum(np.sum((level - level.mean()) ** 2) for level in levels))
    # the line has a slope and an intercept; the steps have a first level, and a level and a night for each change
    if _bic(straight, n, 2) >= _bic(stepped, n, 1 + 2 * len(points)):
        return None
    sen = stats.theilslopes(series, nights, CONFIDENCE)
    return Drift(slope=float(sen.slope), low=float(sen.low_slope), high=float(sen.high_slope), p=p)


def _bic(squares: float, n: int, parameters: int) -> float:
    return n * float(np.log(max(squares, np.finfo(float).tiny) / n)) + parameters * float(np.log(n))


def _split(series: Array) -> list[int]:
    """Return the candidates for changes of level (Hunter's first pass), from windows that overlap by up to half.

    A window is split where the two sides differ most, while a t-test at WEAK × MAX_P_VALUE is significant."""
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
            if (split := best_split(sums, left, right, least=MIN_NIGHTS)) is not None
        ]
        if not splits:
            break
        _, left, point, right = max(splits)
        p, _, _ = _t_test(series[start + left : start + point], series[start + point : start + right])
        if not p < WEAK * MAX_P_VALUE:
            break
        points = sorted([*points, point])
    return [start + point for point in points]


def pair_sums(series: Array) -> Array:
    """Return P[i, j] = Σ |x_k − x_l| over k < i and l < j; four entries give the sum over a block of pairs."""
    distances = np.abs(series[:, None] - series[None, :])
    sums = np.zeros((len(series) + 1, len(series) + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    return sums


def best_split(sums: Array, start: int, end: int, *, least: int) -> tuple[int, float] | None:
    """Return the index τ that best splits the section [start, end), and the energy distance Q̂ of the two sides.

    Q̂(τ, κ) = mn/(m+n) · (2·mean|X−Y| − mean|X−X'| − mean|Y−Y'|) with X = [start, τ) and Y = [τ, κ), maximised over
    τ and κ, with at least `least` (2 or more) values on each side; None if the section is too short. D. S. Matteson and
    N. A. James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", JASA 109 (2014),
    section 2.
    """
    taus = np.arange(start + least, end - least + 1)
    if not len(taus):
        return None
    kappas = np.arange(start + 2 * least, end + 1)
    t, k = taus[:, None], kappas[None, :]
    m, n = (t - start).astype(float), np.maximum(k - t, least).astype(float)  # k − t < least is masked below

    def block(i: Any, j: Any, a: Any, b: Any) -> Any:
        return sums[j, b] - sums[i, b] - sums[j, a] + sums[i, a]

    between = block(start, t, t, k) / (m * n)
    left = block(start, t, start, t) / (m * (m - 1))
    right = block(t, k, t, k) / (n * (n - 1))
    q = np.where(k - t >= least, m * n / (m + n) * (2 * between - left - right), -np.inf)
    i, j = np.unravel_index(int(np.argmax(q)), q.shape)
    return int(taus[i]), float(q[i, j])


def _merge(series: Array, points: list[int], least_change: float) -> list[int]:
    """Return the candidates that are changes (Hunter's second pass).

    Removes one candidate at a time: the least significant one if it is not significant, else the smallest one if its
    relative change is below `least_change`."""
    points = list(points)
    while points:
        autocorrelation = estimate_autocorrelation(series, points)
        judged = [
            _change(series, left, point, right, autocorrelation) for left, point, right in _sides(points, len(series))
        ]
        worst = max(range(len(points)), key=lambda i: judged[i].p)
        if judged[worst].p < MAX_P_VALUE:
            worst = min(range(len(points)), key=lambda i: _size(judged[i]))
            if _size(judged[worst]) >= least_change:
                return points
        del points[worst]
    return points


def estimate_autocorrelation(series: Array, points: Sequence[int]) -> float:
    """Return the autocorrelation at lag 1 within the levels, clipped to [0, MAX_AUTOCORRELATION].

    Corrects the bias of short levels (M. G. Kendall, "Note on bias in the estimation of autocorrelation",
    Biometrika 41 (1954)); 0 without noise, or if levels have fewer than AUTOCORRELATION_NIGHTS nights on average.
    """
    levels = [level - level.mean() for level in np.split(series, list(points))]
    squares = sum(float(level @ level) for level in levels)
    if squares == 0 or len(series) < AUTOCORRELATION_NIGHTS * len(levels):
        return 0.0
    seen = sum(float(level[1:] @ level[:-1]) for level in levels) / squares
    share = len(levels) / len(series)
    return float(np.clip((seen + share) / (1 - 3 * share), 0.0, MAX_AUTOCORRELATION))


def _sides(points: Sequence[int], length: int) -> list[tuple[int, int, int]]:
    edges = [0, *points, length]
    return list(zip(edges, points, edges[2:], strict=False))


def _change(series: Array, left: int, point: int, right: int, autocorrelation: float) -> Change:
    before, after = series[left:point], series[point:right]
    p, low, high = _t_test(before, after, autocorrelation)
    return Change(
        index=point,
        before=float(before.mean()),
        after=float(after.mean()),
        low=low,
        high=high,
        p=p,
    )


def _t_test(before: Array, after: Array, autocorrelation: float = 0.0) -> tuple[float, float, float]:
    """Return (p, low, high) of Student's two-sided t-test; low and high: the 95 % interval of the difference.

    Assumes equal noise on both sides, so that three nights suffice. With the autocorrelation ρ, n nights count as
    n(1 − ρ)/(1 + ρ) independent nights (G. V. Bayley and J. M. Hammersley, "The 'Effective' Number of Independent
    Observations", JRSS 8 (1946)).
    """
    difference = float(after.mean() - before.mean())
    squares = float(np.sum((before - before.mean()) ** 2) + np.sum((after - after.mean()) ** 2))
    if squares == 0:
        return (0.0 if difference else 1.0), difference, difference
    share = (1 - autocorrelation) / (1 + autocorrelation)
    freedom = max((len(before) + len(after)) * share - 2, 1.0)
    variance = squares / (len(before) + len(after) - 2)
    error = float(np.sqrt(variance * (1 / len(before) + 1 / len(after)) / share))
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    reach = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error
    return p, difference - reach, difference + reach


def _size(change: Change) -> float:
    return float("inf") if change.relative is None else abs(change.relative)


def _exact_changes(series: Array, least_change: float) -> list[Change]:
    """Return a change for each night that differs from the night before by at least `least_change` (relative)."""
    found = [
        Change(index=point, before=before, after=after, low=after - before, high=after - before, p=0.0)
        for point, (before, after) in enumerate(pairwise(series.tolist()), start=1)
        if before != after
    ]
    return [change for change in found if _size(change) >= least_change]
