"""Computes each point's posterior probability of being the culprit, and the most informative point to run next.

A point is a commit or a package version. The level is the expected logarithm of a time; for another
metric it is 0 (good) or 1 (bad). The culprit is the point at which the level increases.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from configs.frozen import Frozen
from tasks.diff.examine.noise import Noise

TWICE = 0.1  # prior probability that the level changed at two points instead of one

type Values = NDArray[np.float64]


class ObservedRun(Frozen):
    """One run of one point; if the metric is no time, the mark of a point.

    value: logarithm of the run's time, or the level of the mark (0 or 1). error: standard error of `value` from the
    run's own steps.
    """

    point: int
    value: float
    error: float = 0.0


class Belief(Frozen, arbitrary_types_allowed=True):
    """The posterior over hypotheses. A hypothesis is the one or two points at which the level changes."""

    # (hypotheses, 2): first point of each new level; with one change, the second number is the number of points
    changes: NDArray[np.int64]
    chances: Values  # (hypotheses,): posterior probability; sums to 1
    levels: Values  # (hypotheses, 3): expected level before, between and after the changes
    culprits: Values  # (points,): probability that the larger increase is at this point
    sigma: float  # standard deviation of one run around its point's level
    df: float  # degrees of freedom of sigma

    def level_at(self, point: int) -> Values:
        """Return the expected level of a point under every hypothesis."""
        stretch = (point >= self.changes[:, 0]).astype(int) + (point >= self.changes[:, 1])
        found: Values = self.levels[np.arange(len(stretch)), stretch]
        return found


def find_belief(observations: Sequence[ObservedRun], weights: Sequence[float], noise: Noise) -> Belief:
    """Return the posterior over the points. The first point is good, the last one is bad.

    weights: each point's prior weight of being the culprit; 0 rules it out. noise: the noise of a pair of equal runs.
    The level changes at one point, or at two with prior probability TWICE. The prior of levels is normal around an
    unknown mean. Its standard deviation is the observed range, but at least twice the noise's scale. The prior of a
    run's variance is scaled inverse χ² with the noise's degrees of freedom. Mean and variance are integrated out
    (A. Gelman et al., BDA, ch. 3 and 5). Raises ValueError if no point after the first has a weight.
    """
    prior = np.asarray(weights, dtype=float)
    size = prior.size
    if not prior[1:].any():
        raise ValueError("no point of the line can be the culprit")
    changes, chances = _hypotheses(prior)
    variance = noise.scale**2 / 2
    points = np.array([one.point for one in observations])
    values = np.array([one.value for one in observations])
    precision = variance / (variance + np.square([one.error for one in observations]))
    sums = [_cumulate(points, terms, size) for terms in (precision, precision * values, precision * values**2)]
    spread = max(values.max() - values.min(), 2 * noise.scale) ** 2 / variance
    borders = np.column_stack([np.zeros(len(changes), int), changes, np.full(len(changes), size)])
    count, first, second = (one[borders[:, 1:]] - one[borders[:, :-1]] for one in sums)
    mean = np.divide(first, count, out=np.zeros_like(first), where=count > 0)
    within = np.maximum(second - count * mean**2, 0).sum(axis=1)
    weight = count / (1 + spread * count)
    middle = (weight * mean).sum(axis=1) / weight.sum(axis=1)
    squares = within + (weight * (mean - middle[:, None]) ** 2).sum(axis=1)
    df = noise.df + len(values) - 1
    evidence = (
        -np.log1p(spread * count).sum(axis=1) / 2
        - np.log(weight.sum(axis=1)) / 2
        - df / 2 * np.log1p(squares / (noise.df * variance))
    )
    score = np.log(chances) + evidence
    found = np.exp(score - score.max())
    found /= found.sum()
    shrunk = spread * count / (1 + spread * count)
    levels = middle[:, None] + shrunk * (mean - middle[:, None])
    # `sigma` is computed for the likeliest hypothesis with one change: a level that comes and goes counts as noise
    # until more runs show it.
    best = int(np.where(changes[:, 1] == size, found, -1.0).argmax())
    return Belief(
        changes=changes,
        chances=found,
        levels=levels,
        culprits=_culprits(changes, levels, found, size),
        sigma=float(np.sqrt((noise.df * variance + squares[best]) / df)),
        df=df,
    )


def _hypotheses(prior: Values) -> tuple[NDArray[np.int64], Values]:
    """Return all hypotheses (see `Belief.changes`) and their prior probabilities."""
    size = prior.size
    can = np.flatnonzero(prior[1:] > 0) + 1
    share = prior[can] / prior[can].sum()
    once = np.column_stack([can, np.full(can.size, size)])
    left, right = np.triu_indices(can.size, 1)
    if not left.size:
        return once, share
    both = share[left] * share[right]
    chances = np.concatenate([(1 - TWICE) * share, TWICE * both / both.sum()])
    return np.concatenate([once, np.column_stack([can[left], can[right]])]), chances


def _cumulate(points: NDArray[np.int64], values: Values, size: int) -> Values:
    return np.concatenate([[0.0], np.cumsum(np.bincount(points, values, minlength=size))])


def _culprits(changes: NDArray[np.int64], levels: Values, chances: Values, size: int) -> Values:
    """Return each point's probability of being the culprit. Of two changes, the larger increase is the culprit."""
    later = (changes[:, 1] < size) & (levels[:, 2] - levels[:, 1] > levels[:, 1] - levels[:, 0])
    at = np.where(later, changes[:, 1], changes[:, 0])
    return np.bincount(at, chances, minlength=size)


GRID = 160  # intervals of the grid on which the density of the next value is computed
WIDEST = 60.0  # largest range of levels, in standard deviations of a run, that the grid has to resolve


def choose_point(belief: Belief, points: Iterable[int]) -> int | None:
    """Return the point whose next run gives the most information, the first of equals; None if no run gives any."""
    worth = {point: information for point in points if (information := _measure_information(belief, point)) > 0}
    return max(worth, key=lambda point: worth[point], default=None)


def _measure_information(belief: Belief, point: int) -> float:
    """Return the mutual information, in nats, between the hypothesis and the value of one more run of this point.

    The next value is a mixture of the point's levels under all hypotheses, with the noise of a run. Its entropy minus
    the entropy of the noise is the information (D. Lindley, Ann. Math. Statist. 27 (1956) 986).
    """
    levels = belief.level_at(point)
    reach = float(np.ptp(levels))
    sigma = max(belief.sigma, reach / WIDEST)
    if reach < 1e-9 * sigma:
        return 0.0
    step = (reach + 8 * sigma) / GRID
    grid = levels.min() - 4 * sigma + step * np.arange(GRID + 1)
    held = _spread(levels, belief.chances, grid[0], step)
    offsets = step * np.arange(-GRID, GRID + 1)
    kernel = np.exp(-0.5 * (offsets / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    density = np.convolve(held, kernel)[GRID : 2 * GRID + 1]
    entropy = -step * float(np.sum(density * np.log(np.maximum(density, 1e-300))))
    alone = 0.5 * float(np.log(2 * np.pi * np.e * sigma**2))
    return max(0.0, entropy - alone - 1e-6)


def _spread(levels: Values, chances: Values, start: float, step: float) -> Values:
    """Return each grid point's probability. A level's probability is split between the two nearest grid points."""
    place = (levels - start) / step
    low = np.floor(place).astype(int)
    part = place - low
    held = np.bincount(low, chances * (1 - part), minlength=GRID + 2)
    return (held + np.bincount(low + 1, chances * part, minlength=GRID + 2))[: GRID + 1]
