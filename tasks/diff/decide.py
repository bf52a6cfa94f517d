"""The decision rule: what the evidence for one metric says. The only place that turns numbers into verdict words.

Plain on purpose. Exact metrics: equal or not, at the precision they are known in. Noisy metrics: one run cannot tell a
change from run-to-run noise, so a difference counts only when the runs of the two arms do not overlap.
`docs/verdict.md` says the same in prose, with examples.
"""

from collections.abc import Sequence
from math import isclose, isfinite, isnan, log10
from statistics import median

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.records import Better, Verdict

LEAST_REPEATS = 3  # with 3 against 3, complete separation has a chance of 1 in 10 when nothing changed
ROUNDING = 1e-9  # share of a unit: the difference of two decimals is not exact in binary


class Decision(Frozen):
    """A verdict word, the threshold behind it in the metric's own unit, and the reason as a sentence."""

    verdict: Verdict
    reason: str
    threshold: float | None = None
    threshold_text: str = ""
    difference: float | None = None  # candidate − baseline of a noisy metric, between the medians of the arms


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
        verdict, reason = "same", f"within ±{threshold:g}: {tolerance.why}"
    elif unit and (abs(difference) <= unit or isclose(abs(difference), unit, rel_tol=1e-6)):
        verdict = "unknown"
        reason = "one unit of the last printed digit: rounding may make it; full precision would tell"
    else:
        worse = better == "equal" or (difference > 0) == (better == "lower")
        verdict = "regressed" if worse else "improved"
        reason = f"differs by {difference:+.6g}, allowed is {threshold:g} ({tolerance.why})"
    return Decision(verdict=verdict, reason=reason, threshold=threshold, threshold_text=show_threshold(tolerance, unit))


def decide_noisy(
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    better: Better,
    tolerance: Tolerance,
    spread: float,
    same_program: bool,
    cost_s: float | None = None,
) -> Decision:
    """A metric with noise, one value per run; `spread` is the larger spread within a run, in the metric's unit.

    `cost_s` is what one more run of each arm takes, in seconds.
    """
    base, cand = median(baseline), median(candidate)
    threshold = threshold_of(tolerance, base)
    difference = cand - base
    repeats = min(len(baseline), len(candidate))
    shown = f"{100 * difference / base:+.1f} %" if base else f"{difference:+.3g}"
    allowed = show_threshold(tolerance)
    apart = max(baseline) < min(candidate) or max(candidate) < min(baseline)
    widest = max(max(baseline) - min(baseline), max(candidate) - min(candidate), spread / repeats**0.5)
    verdict: Verdict
    if same_program:
        verdict = "same"
        reason = f"both arms run the same compiled program: the measured {shown} is noise by construction"
    elif repeats < LEAST_REPEATS:
        verdict = "unknown"
        reason = (
            f"{shown} from {repeats} run{'s' if repeats > 1 else ''} per arm: run-to-run noise is not known; "
            f"{ask_for_more(repeats, LEAST_REPEATS, cost_s)}"
        )
    elif abs(difference) > threshold and apart:
        verdict = "regressed" if (difference > 0) == (better == "lower") else "improved"
        reason = f"{shown}, more than {allowed}, and all {repeats} runs of one arm lie beyond those of the other"
    elif abs(difference) + widest <= threshold:
        verdict = "same"
        reason = f"{shown}, and the runs agree within {allowed} ({tolerance.why})"
    else:
        verdict = "unknown"
        reason = (
            f"{shown}, but the runs of one arm differ by {widest:.3g} among themselves; "
            f"{ask_for_more(repeats, 2 * repeats, cost_s)}"
        )
    return Decision(verdict=verdict, reason=reason, threshold=threshold, threshold_text=allowed, difference=difference)


def ask_for_more(repeats: int, wanted: int, cost_s: float | None) -> str:
    """How many runs more, how to ask for them, and what they cost."""
    more = wanted - repeats
    cost = f", about {show_duration(more * cost_s)}" if cost_s else ""
    return f"run {more} more of each (--repeats {wanted}{cost})"


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


def show_duration(seconds: float) -> str:
    """A length of time in the unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 120 * 60 else f"{seconds / 3600:.1f} hours"
