"""Chooses the point whose next run gives the most information about the culprit."""

from collections.abc import Iterable

import numpy as np

from tasks.bisect.posterior import Belief, Values

GRID = 160  # intervals of the grid on which the density of the next value is computed
WIDEST = 60.0  # largest range of levels, in standard deviations of a run, that the grid has to resolve


def choose_point(belief: Belief, points: Iterable[int]) -> int | None:
    """Return the point whose next run gives the most information, the first of equals; None if no run gives any."""
    worth = {point: information(belief, point) for point in points}
    best = max(worth, key=lambda point: worth[point], default=None)
    return best if best is not None and worth[best] > 0 else None


def information(belief: Belief, point: int) -> float:
    """Return the mutual information, in nats, between the culprit and the value of one more run of this point.

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
    """Return a probability for each grid point: each level's probability is split between its two neighbours."""
    place = (levels - start) / step
    low = np.floor(place).astype(int)
    part = place - low
    held = np.bincount(low, chances * (1 - part), minlength=GRID + 2)
    return (held + np.bincount(low + 1, chances * part, minlength=GRID + 2))[: GRID + 1]
