"""Finds the most likely change point in a section of a series, with the energy distance (E-divisive means)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

type Array = NDArray[np.float64]


def pair_sums(series: Array) -> Array:
    """Return P[i, j] = Σ |x_k − x_l| over k < i and l < j; four entries give the sum over a block of pairs."""
    distances = np.abs(series[:, None] - series[None, :])
    sums = np.zeros((len(series) + 1, len(series) + 1))
    sums[1:, 1:] = distances.cumsum(axis=0).cumsum(axis=1)
    return sums


def best_split(sums: Array, start: int, end: int, *, least: int) -> tuple[int, float] | None:
    """Return the index τ that best splits the section [start, end), and the energy distance Q̂ of its two sides.

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
