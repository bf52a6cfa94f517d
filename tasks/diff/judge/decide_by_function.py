"""Decides the loss, the other values and the rounding of two arms whose steps were compared in float64.

Runs cannot tell a changed constant from rounding: both move a loss by the same amount. The steps can: in float64,
rounding falls to 1e-15. The curves then only have to stay within what rounding does to them.
"""

from math import hypot, inf

import numpy as np
from numpy.typing import NDArray

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.parity import MetricParity
from tasks.diff.judge.decide_curves import compare_blocks
from tasks.diff.judge.metric_rows import make_row, not_judged
from tasks.metrics.result_metrics import FUNCTION, ROUNDING
from tasks.records.compared_case import Decision, MetricDiff, Verdict
from tasks.records.data import DataComparison
from tasks.records.function import FunctionComparison, RoundingBand, RoundingError
from tasks.records.run_facts import Measured

# How many times further than two perturbed runs of one arm the arms' losses may part. Among equal functions the largest
# factor measured was 1.9 (benchmarks/same_function.py).
CURVE_LIMIT = 4.0
LAST_BITS = 4 * 2.0**-24  # of a loss in float32, whose sum over tokens may round anew
PRINTED = 12**-0.5 * 2**0.5  # standard deviation of the difference of two values rounded to 1
OF_HOST = "the host adds up, chooses or logs another value"
UP_TO_ROUNDING = "one function, up to rounding"
# Largest factor between the arms' rounding errors. Among equal functions it was 1.14 over all gradients, 1.05 over all
# parameters after a step, and 1.49 for one gradient (docs/decisions/0157-typical-rounding-error.md).
WORSE_QUANTITY, WORSE_GRADIENT = 1.25, 1.6
JUDGED = ("gradients", "parameters")  # quantities of many values; that of a number is an accident
ORDER = ("gradients", "loss", "gradient norm", "parameters")


def decide_loss(
    curves: MetricParity,
    decision: Decision,
    function: FunctionComparison | None,
    data: DataComparison | None = None,
) -> Decision:
    """Return the decision on the losses: by the function if it was evaluated, else `decision`, made from the curves.

    Losses that are NaN or infinite, and equal losses of one function, keep the decision from the curves. data: of the
    recorded steps.
    """
    if function is None or function.answer == "not evaluated" or not curves.parity.steps or not _is_finite(curves):
        return decision
    distance = measure_distance(curves, function.band)
    if function.answer == "same":
        if decision.verdict == "same":
            return decision
        starts_equal = data is not None and data.starts_equal and not function.stands_for
        first = tell_first_loss(curves, function.band) if starts_equal else ""
        if first:
            return decision.replace(verdict="changed", reason=f"{function.sentence}; {first}", runs_wanted=None)
        return _decide_one_function(decision, function, distance)
    gap = compare_blocks(curves.steps, curves.sides)[-1]
    word: Verdict = "changed"
    reason = function.sentence
    if distance > CURVE_LIMIT and function.band is not None:
        word = "regressed" if gap.difference > 0 else "changed"  # a lower loss of another function is no improvement
        lower = "higher" if gap.difference > 0 else "lower"
        beyond = f"{distance:.0f} times what rounding explains"
        reason += f"; the loss is {abs(gap.difference):.4g} {lower} in {gap.steps}, {beyond}"
    return decision.replace(verdict=word, reason=reason, runs_wanted=None)


def _decide_one_function(decision: Decision, function: FunctionComparison, distance: float) -> Decision:
    if distance <= CURVE_LIMIT:
        assert function.band is not None  # else the distance is infinite
        within = f"the losses part by {distance:.1f} times what a change of the last bit of the weights does"
        reason = f"{function.sentence}; {within}"
        return decision.replace(verdict="same", reason=reason, runs_wanted=None)
    if function.band is None:
        return decision.replace(reason=f"{function.sentence}; but {decision.reason}")
    far = "by a value that is not finite" if distance == inf else f"by {distance:.0f} times what rounding explains"
    reason = f"the steps compute one function, and the curves part {far}: look at data, schedule, host"
    return decision.replace(verdict="unknown", reason=reason, runs_wanted=None)


def tell_first_loss(curves: MetricParity, band: RoundingBand | None) -> str:
    """Return how the losses of the first step differ beyond rounding, though one function made them; else "".

    From equal arrays nothing but the host is left: it adds up, chooses or logs another value.
    """
    first = int(curves.steps[0])
    gap = float(curves.sides[1][:, 0].mean() - curves.sides[0][:, 0].mean())
    if band is None or first > 1 or abs(gap) <= CURVE_LIMIT * rounding_of_loss(band, curves.unit):
        return ""
    which = "higher" if gap > 0 else "lower"
    return f"but from equal arrays the loss of step {first} is {abs(gap):.4g} {which}: {OF_HOST}"


def measure_distance(curves: MetricParity, band: RoundingBand | None) -> float:
    """Return how many times further the arms' mean losses part than rounding makes them part; inf without a band.

    The band covers the first steps. Behind them it grows in proportion to the step, faster than measured, so that a
    change of data or schedule in a later step is not excused.
    """
    if band is None:
        return inf
    allowed = rounding_of_loss(band, curves.unit)
    gaps = curves.sides[1].mean(axis=0) - curves.sides[0].mean(axis=0)
    scaled = gaps / np.maximum(1.0, (np.arange(len(gaps)) + 1) / band.steps)
    windows = [scaled[begin : begin + band.steps] for begin in range(0, len(scaled), band.steps)]
    return float(max(_rms(window) * min(1.0, (len(window) / band.steps) ** 0.5) for window in windows) / allowed)


def rounding_of_loss(band: RoundingBand, unit: float = 0.0) -> float:
    """Return how far rounding makes the losses part, in units of the loss. unit: of the printed losses; 0: exact."""
    return hypot(band.rms, PRINTED * unit, LAST_BITS * abs(band.loss))


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _is_finite(curves: MetricParity) -> bool:
    return all(bool(np.isfinite(side).all()) for side in curves.sides)


def excuse_rounding(decision: Decision | None, loss: Decision, function: FunctionComparison | None) -> Decision | None:
    """Return a decision on other values: *same* if one function and losses within rounding explain a difference.

    Values of another function are never *improved*.
    """
    if decision is None or function is None:
        return decision
    if function.answer == "another" and decision.verdict in ("unknown", "improved"):
        reason = f"follows from another function: {decision.claim or decision.reason}"
        return decision.replace(verdict="changed", reason=reason, runs_wanted=None)
    if function.answer != "same" or loss.verdict != "same":
        return decision
    if decision.verdict == "same" or decision.not_finite:
        return decision
    return decision.replace(verdict="same", reason=f"{UP_TO_ROUNDING}: {decision.reason}", runs_wanted=None)


def function_row(arms: Arms, function: FunctionComparison) -> MetricDiff:
    """Return the row that tells whether both steps compute one function."""
    words: dict[str, Verdict] = {"same": "same", "another": "changed"}
    cells = Measured(text=f"{function.results} results" if function.results else "not evaluated")
    decision = Decision(verdict=words.get(function.answer, "unknown"), reason=function.sentence)
    return make_row(FUNCTION, (cells, cells), arms, decision)


def rounding_row(arms: Arms, function: FunctionComparison | None) -> MetricDiff | None:
    """Return the row that judges whether the candidate rounds worse; None unless both steps ran in float64."""
    if function is None or function.answer == "not evaluated" or not function.rounding:
        return None
    shown = min(function.rounding, key=lambda one: ORDER.index(one.quantity) if one.quantity in ORDER else len(ORDER))
    decision = _decide_rounding(function)
    worst = name_worse_rounding(function)
    shown = worst if worst is not None and decision.verdict == "regressed" else shown
    cells = [Measured(value=100 * value, text=f"{100 * value:.2g} %") for value in (shown.baseline, shown.candidate)]
    return make_row(ROUNDING, (cells[0], cells[1]), arms, decision)


def name_worse_rounding(function: FunctionComparison) -> RoundingError | None:
    """Return the quantity, else the gradient, whose rounding error grew beyond its limit; None if none did."""
    beyond = [one for one in function.rounding if one.quantity in JUDGED and one.ratio > WORSE_QUANTITY]
    worst = function.worst_gradient
    return next(iter(beyond), worst if worst is not None and worst.ratio > WORSE_GRADIENT else None)


def _decide_rounding(function: FunctionComparison) -> Decision:
    shown = "; ".join(
        f"{one.quantity} {100 * one.baseline:.2g} → {100 * one.candidate:.2g} %" for one in function.rounding
    )
    text = f"×{WORSE_QUANTITY:g}"
    if function.answer != "same":
        return not_judged(f"the arms compute other functions, so their rounding is no measure: {shown}")
    if (worse := name_worse_rounding(function)) is not None:
        name = worse.quantity if worse.quantity in JUDGED else f"the gradient of {worse.quantity}"
        said = (
            f"rounding error of {name} {100 * worse.baseline:.2g} % → {100 * worse.candidate:.2g} %, ×{worse.ratio:.1f}"
        )
        return Decision(verdict="regressed", reason=f"{said}; {shown}", threshold_text=text)
    better = next(
        (one for one in function.rounding if one.quantity == "gradients" and one.ratio < 1 / WORSE_QUANTITY), None
    )
    return Decision(
        verdict="improved" if better else "same",
        reason=f"distance of each arm to its own float64: {shown}",
        threshold_text=text,
    )
