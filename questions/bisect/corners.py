"""Computes the effects of new code and of new packages on a metric, from runs of all four combinations (corners).

The corners are, in this order: (old code, old packages), (new code, old packages), (old code, new packages), (new code,
new packages).
"""

from collections.abc import Callable, Sequence
from math import expm1, sqrt
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy-stubs is not installed

from configs.verdict_rules import Tolerance
from questions.bisect.run_judge import RunJudge
from questions.bisect.terms import WORSE
from tasks.diff.examine.noise import Noise
from tasks.diff.judge.effect import CONFIDENCE
from tasks.records.bisection import FactorEffect
from tasks.records.compared_case import Decision, Verdict
from tasks.records.text import show_interval

CONTRASTS: dict[Literal["code", "packages", "interaction"], tuple[float, float, float, float]] = {
    "code": (-0.5, 0.5, -0.5, 0.5), "packages": (-0.5, -0.5, 0.5, 0.5), "interaction": (1, -1, -1, 1),
}  # fmt: skip


def measure_corners(judge: RunJudge) -> tuple[FactorEffect, ...]:
    """Return the effects of code, packages and their interaction on the judge's metric. Its points are the corners."""
    if not judge.judges_time:
        return compare_corners(judge.compare)
    levels = [[one.value for one in judge.observe(corner)] for corner in range(4)]
    return contrast_corners(levels, judge.noise, judge.tolerance)


def blame_packages(corners: Sequence[FactorEffect]) -> bool:
    """Return whether the new packages make the metric worse and the new code does not. Ignores the interaction."""
    return {one.name for one in corners if one.verdict in WORSE} - {"interaction"} == {"packages"}


def contrast_corners(levels: Sequence[Sequence[float]], noise: Noise, tolerance: Tolerance) -> tuple[FactorEffect, ...]:
    """Return the effects of code and of packages on a time, each averaged over the other, and their interaction.

    levels: logarithms of the runs' seconds for each corner. Computes the factorial contrasts of a 2 × 2 experiment with
    a pooled variance (G. Box, W. Hunter, J. Hunter, Statistics for Experimenters, ch. 5), to which the stated noise
    contributes its degrees of freedom.
    """
    means = [float(np.mean(side)) for side in levels]
    squares = sum(float(np.sum((np.asarray(side) - mean) ** 2)) for side, mean in zip(levels, means, strict=True))
    df = noise.df + sum(len(side) - 1 for side in levels)
    variance = (noise.df * noise.scale**2 / 2 + squares) / df
    found = []
    for name, weights in CONTRASTS.items():
        estimate = sum(weight * mean for weight, mean in zip(weights, means, strict=True))
        error = sqrt(variance * sum(weight**2 / len(side) for weight, side in zip(weights, levels, strict=True)))
        half = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * error
        low, high = estimate - half, estimate + half
        text = show_interval(expm1(estimate), expm1(low), expm1(high))
        verdict = _word(estimate, low, high, tolerance)
        found.append(FactorEffect(name=name, verdict=verdict, text=text, estimate=estimate, low=low, high=high))
    return tuple(found)


def _word(estimate: float, low: float, high: float, tolerance: Tolerance) -> Verdict:
    if (low > 0 or high < 0) and abs(estimate) >= (tolerance.least or 0.0):
        return "regressed" if estimate > 0 else "improved"
    within = tolerance.relative or 0.0
    return "same" if -within <= low and high <= within else "unknown"


def compare_corners(compare: Callable[[int, int], Decision]) -> tuple[FactorEffect, ...]:
    """Return the same effects on a metric without noise. compare: returns the verdict on the second of two corners."""
    code, packages = (compare(0, 1), compare(2, 3)), (compare(0, 2), compare(1, 3))
    found = [FactorEffect(name="code", **_both(code)), FactorEffect(name="packages", **_both(packages))]
    apart = code[0].verdict != code[1].verdict or packages[0].verdict != packages[1].verdict
    known = "unknown" not in {one.verdict for one in (*code, *packages)}
    text = "one changes what the other does" if apart else "each does the same whichever the other is"
    verdict: Verdict = "unknown" if not known else "changed" if apart else "same"
    return (*found, FactorEffect(name="interaction", verdict=verdict, text=text))


def _both(pair: tuple[Decision, Decision]) -> dict[str, Any]:
    """Return a factor's verdict, and a text with both verdicts of `pair`: with the other factor old, and with it new.

    The factor's verdict is the first of the two that is worse, else the first that is not `same`.
    """
    worse = next((one for one in pair if one.verdict in WORSE), pair[1] if pair[0].verdict == "same" else pair[0])
    return {"verdict": worse.verdict, "text": f"{pair[0].verdict} with the old, {pair[1].verdict} with the new"}
