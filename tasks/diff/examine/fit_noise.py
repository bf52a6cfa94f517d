"""Fits the noise that configs/noise.yml states for a kind of device to the equal runs of several systems."""

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np

from configs.frozen import Frozen

MIN_SYSTEMS = 3  # with fewer, nothing shows how much systems differ in their noise
MOST_ALIKE = 100.0  # degrees of freedom of systems that do not differ in their noise; more changes no verdict


class NoiseFitError(ValueError):
    """The runs show no noise; the message says why, and what to do."""


class SystemNoise(Frozen):
    """The scatter of one system's equal runs."""

    name: str
    runs: int
    seconds: float  # geometric mean of the runs' levels
    scatter: float  # standard deviation of the logarithm of the level: 0.01 is 1 %


class NoiseFit(Frozen):
    """The fitted distribution of the difference between two equal runs: Student's t around 0, over all systems."""

    systems: tuple[SystemNoise, ...]
    equal_runs: float  # its scale, as the logarithm of a ratio
    weight: float  # its degrees of freedom


def measure_system(name: str, levels: Sequence[float]) -> SystemNoise:
    """Return the scatter of the step times (seconds) of a system's equal runs. Raises NoiseFitError."""
    if len(levels) < 2:
        raise NoiseFitError(f"{name}: has one run with a step time; give two or more equal runs of each system")
    logs = np.log(np.asarray(levels))
    scatter = float(logs.std(ddof=1))
    if not scatter > 0:
        raise NoiseFitError(f"{name}: its runs have one step time in every digit; give logs of different runs")
    return SystemNoise(name=name, runs=len(levels), seconds=exp(float(logs.mean())), scatter=scatter)


def fit_noise(systems: Sequence[SystemNoise]) -> NoiseFit:
    """Return the scale and the degrees of freedom that make the systems' scatters most likely. Raises NoiseFitError.

    Model: the variance of a system follows a scaled inverse χ² with d₀ degrees of freedom around s₀², as in G. K.
    Smyth's moderated t ("Linear models and empirical Bayes methods", SAGMB 3 (2004)), so that each system's variance of
    n runs, over s₀², follows F(n - 1, d₀). The difference of two runs has twice the variance of one. A run's own error,
    which its steps show, is part of the scatter.
    """
    if len(systems) < MIN_SYSTEMS:
        raise NoiseFitError(
            f"expected {MIN_SYSTEMS} or more systems, got {len(systems)}: fewer do not show how much systems differ in "
            "their noise; for one system's own noise use its history (maxview ingest --aa --target NAME)"
        )
    from scipy import optimize, stats  # type: ignore[import-untyped]  # slow to load

    variances = np.array([2 * one.scatter**2 for one in systems])
    freedoms = np.array([one.runs - 1 for one in systems])

    def cost(parameters: Sequence[float]) -> float:
        scale, df = exp(2 * parameters[0]), exp(parameters[1])
        return float(-(stats.f.logpdf(variances / scale, freedoms, df) - log(scale)).sum())

    start = [log(float(np.median(variances))) / 2, log(4.0)]
    fit = optimize.minimize(cost, start, method="L-BFGS-B", bounds=[(None, None), (log(0.1), log(MOST_ALIKE))])
    return NoiseFit(systems=tuple(systems), equal_runs=exp(fit.x[0]), weight=exp(fit.x[1]))


def scatter_quantiles(systems: Sequence[SystemNoise]) -> tuple[float, float, float]:
    """Return the 10, 50 and 90 % quantile of the systems' standard deviation of a difference of two runs."""
    low, middle, high = np.quantile([sqrt(2) * one.scatter for one in systems], [0.1, 0.5, 0.9])
    return float(low), float(middle), float(high)
