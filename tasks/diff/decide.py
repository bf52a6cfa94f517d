"""The decision rule for metrics without noise: equal or not, at the precision they are known in.

This and `decide_noisy` are the only places that turn numbers into verdict words. `docs/verdict.md` says the same in
prose, with examples.
"""

from math import isclose, isfinite, isnan, log10

from configs.comparison import Tolerance
from tasks.records import Better, Decision, Verdict

LEAST_REPEATS = 3  # runs of one arm that show by themselves how much equal runs differ
ONE_RUN = "one run of each"  # the least evidence that a word can rest on
ONE_PROGRAM = "one program"  # evidence that no measured difference can shake: there is nothing that could differ
ROUNDING = 1e-9  # share of a unit: the difference of two decimals is not exact in binary


def decide_exact(
    baseline: float, candidate: float, *, better: Better, tolerance: Tolerance, precision: str, unit: float = 0.0
) -> Decision:
    """A metric without noise. `unit` is one unit of its last printed digit; 0 when it is known in full."""
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
        reason = "one unit of the last printed digit: rounding may make it; full precision would tell"
    else:
        worse = (difference > 0) == (better == "lower")
        verdict = "changed" if better == "equal" else "regressed" if worse else "improved"
        differs, allowed = f"{difference:+.6g}", f"{threshold:g}"
        if tolerance.relative is not None and baseline:
            differs, allowed = show_share(baseline, candidate), show_threshold(tolerance)
        reason = f"differs by {differs}, allowed is {allowed} ({tolerance.why})"
    return Decision(verdict=verdict, reason=reason, threshold=threshold, threshold_text=show_threshold(tolerance, unit))


def threshold_of(tolerance: Tolerance, baseline: float) -> float:
    """The least difference that matters, in the metric's own unit."""
    if tolerance.absolute is not None:
        return tolerance.absolute
    assert tolerance.relative is not None  # Tolerance has exactly one of the two
    return abs(baseline) * tolerance.relative


def show_threshold(tolerance: Tolerance, unit: float = 0.0) -> str:
    """The tolerance as people read it."""
    if tolerance.relative is not None:
        return f"±{100 * tolerance.relative:g} %"
    if tolerance.absolute:
        return f"±{tolerance.absolute:g}"
    if not 0 < unit < 1:
        return "exact"
    decimals = round(-log10(unit))
    return f"equal to {decimals} decimal{'s' if decimals > 1 else ''}"


def show_share(baseline: float, candidate: float) -> str:
    """By what share of the baseline, which is not 0, the candidate differs."""
    share = 100 * (candidate - baseline) / abs(baseline)
    return f"{share:+.{1 if abs(share) >= 1 else 3}f} %"


def show_duration(seconds: float) -> str:
    """A length of time in the unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 120 * 60 else f"{seconds / 3600:.1f} hours"
