"""The decision rule: what the evidence for one metric says. The only place that turns numbers into verdict words.

Plain on purpose. Exact metrics: equal or not, at the precision they are known in. Noisy metrics: one run cannot tell a
change from run-to-run noise, so a difference counts only when the runs of the two arms do not overlap.
"""

from collections.abc import Sequence
from math import isnan
from statistics import median

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.records import Better, Verdict

LEAST_REPEATS = 3  # with 3 against 3, complete separation has a chance of 1 in 10 when nothing changed


class Decision(Frozen):
    """A verdict word, the threshold behind it in the metric's own unit, and the reason as a sentence."""

    verdict: Verdict
    reason: str
    threshold: float | None = None
    threshold_text: str = ""


def decide_exact(
    baseline: float, candidate: float, *, better: Better, tolerance: Tolerance, precision: str, unit: float = 0.0
) -> Decision:
    """A metric without noise. `unit` is one unit of its last printed digit; 0 when it is known in full."""
    difference = candidate - baseline
    threshold = threshold_of(tolerance, baseline)
    if difference == 0 or (isnan(baseline) and isnan(candidate)):
        verdict: Verdict = "same"
        reason = f"equal to {precision}"
    elif isnan(difference):
        verdict = "regressed" if isnan(candidate) else "improved"
        reason = "not a number on one side"
    elif abs(difference) <= threshold:
        verdict = "same"
        reason = f"within ±{threshold:g}: {tolerance.why}"
    elif unit and abs(difference) <= unit * 1.0001:  # the difference of two decimals is not exact in binary
        verdict = "unknown"
        reason = f"one unit of the last printed digit ({precision}): rounding may make it; full precision would tell"
    else:
        worse = better == "equal" or (difference > 0) == (better == "lower")
        verdict = "regressed" if worse else "improved"
        reason = f"differs by {difference:+.6g}, allowed is {threshold:g} ({tolerance.why})"
    return Decision(verdict=verdict, reason=reason, threshold=threshold, threshold_text=show_threshold(tolerance))


def decide_noisy(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    better: Better,
    tolerance: Tolerance,
    spread: float,
    same_program: bool,
) -> Decision:
    """A metric with noise, one value per run; `spread` is the larger spread within a run, in the metric's unit."""
    base, cand = median(baseline), median(candidate)
    threshold = threshold_of(tolerance, base)
    difference = cand - base
    repeats = min(len(baseline), len(candidate))
    percent = f"{difference / base:+.1%}" if base else f"{difference:+.3g}"
    allowed = show_threshold(tolerance)
    apart = max(baseline) < min(candidate) or max(candidate) < min(baseline)
    widest = max(max(baseline) - min(baseline), max(candidate) - min(candidate), spread / repeats**0.5)
    if same_program:
        verdict: Verdict = "same"
        reason = f"both arms run the same compiled program: the measured {percent} is noise by construction"
    elif repeats < LEAST_REPEATS:
        verdict = "unknown"
        reason = (
            f"{percent} from {repeats} run{'s' if repeats > 1 else ''} per arm: run-to-run noise is not known; "
            f"run {LEAST_REPEATS - repeats} more of each (--repeats {LEAST_REPEATS})"
        )
    elif abs(difference) > threshold and apart:
        verdict = "regressed" if (difference > 0) == (better == "lower") else "improved"
        reason = f"{percent}, more than {allowed}, and all {repeats} runs of one arm lie beyond those of the other"
    elif abs(difference) + widest <= threshold:
        verdict = "same"
        reason = f"{percent}, and the runs agree within {allowed} ({tolerance.why})"
    else:
        verdict = "unknown"
        reason = (
            f"{percent}, but the runs of one arm differ by {widest:.3g} among themselves; "
            f"run more (--repeats {repeats * 2})"
        )
    return Decision(verdict=verdict, reason=reason, threshold=threshold, threshold_text=allowed)


def threshold_of(tolerance: Tolerance, baseline: float) -> float:
    """The least difference that matters, in the metric's own unit."""
    if tolerance.absolute is not None:
        return tolerance.absolute
    assert tolerance.relative is not None  # Tolerance has exactly one of the two
    return abs(baseline) * tolerance.relative


def show_threshold(tolerance: Tolerance) -> str:
    """The tolerance as people read it."""
    if tolerance.absolute is not None:
        return f"±{tolerance.absolute:g}" if tolerance.absolute else "exact"
    return f"±{tolerance.relative:.0%}"
