"""Decides the verdict on a metric that is equal in equal runs, from two values, a tolerance and the printed precision.

`decide_noisy` decides times, `decide_curves` the values of every step. `docs/verdict.md` explains the rules.
"""

from math import isclose, isfinite, isnan, log10

from configs.verdict_rules import Tolerance
from tasks.diff.examine.offsets import ROUNDING
from tasks.records.compared_case import Better, Decision, Verdict

MIN_REPEATS = 3  # fewest runs of an arm from which its noise can be estimated


def decide_exact(
    baseline: float, candidate: float, *, better: Better, tolerance: Tolerance, precision: str, unit: float = 0.0
) -> Decision:
    """Return the decision on two values.

    precision: the precision of both values in words. unit: one unit of the last printed digit; 0 if both are exact.
    """
    difference = candidate - baseline
    threshold = threshold_of(tolerance, baseline)
    verdict: Verdict
    if baseline == candidate or (isnan(baseline) and isnan(candidate)):
        verdict, reason = "same", f"equal to {precision}"
    elif not isfinite(baseline) or not isfinite(candidate):
        verdict = "regressed" if isfinite(baseline) else "improved" if isfinite(candidate) else "unknown"
        reason = f"{baseline:g} became {candidate:g}"
    elif abs(difference) <= threshold * (1 + ROUNDING):
        verdict, reason = "same", f"within {show_threshold(tolerance)}: {tolerance.why}"
    elif unit and (abs(difference) <= unit or isclose(abs(difference), unit, rel_tol=1e-6)):
        verdict = "unknown"
        reason = (
            "differs by one unit of the last printed digit, which rounding can explain; "
            "values in full precision would decide"
        )
    else:
        worse = (difference > 0) == (better == "lower")
        verdict = "changed" if better == "equal" else "regressed" if worse else "improved"
        differs = f"{difference:+,.0f}" if float(difference).is_integer() else f"{difference:+.6g}"
        allowed = f"{threshold:g}"
        if tolerance.relative is not None and baseline:
            differs, allowed = show_percentage(baseline, candidate), show_threshold(tolerance)
        reason = f"differs by {differs}, allowed is {allowed} ({tolerance.why})"
    return Decision(verdict=verdict, reason=reason, threshold=threshold, threshold_text=show_threshold(tolerance, unit))


def threshold_of(tolerance: Tolerance, baseline: float) -> float:
    """Return the tolerance in the metric's unit. A relative tolerance is a share of the value `baseline`."""
    if tolerance.absolute is not None:
        return tolerance.absolute
    assert tolerance.relative is not None  # Tolerance has exactly one of the two
    return abs(baseline) * tolerance.relative


def show_threshold(tolerance: Tolerance, unit: float = 0.0) -> str:
    """Return the tolerance as text: `±2 %`, `±0.5`, `exact`, or for a `unit` below 1, `equal to 3 decimals`."""
    if tolerance.relative is not None:
        return f"±{100 * tolerance.relative:g} %"
    if tolerance.absolute:
        return f"±{tolerance.absolute:g}"
    if not 0 < unit < 1:
        return "exact"
    decimals = round(-log10(unit))
    return f"equal to {decimals} decimal{'s' if decimals > 1 else ''}"


def show_percentage(baseline: float, candidate: float) -> str:
    """Return the difference in percent of the baseline, as text. baseline: not 0."""
    share = 100 * (candidate - baseline) / abs(baseline)
    return f"{share:+.{1 if abs(share) >= 1 else 3}f} %"
