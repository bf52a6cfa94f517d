"""Judges the memory that both arms' runs used: the peak and the growth per step, on the host and on the devices."""

from collections.abc import Mapping

from configs.verdict_rules import Tolerance
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.judge.decide import show_percentage, show_threshold
from tasks.diff.judge.decide_noisy import show_runs
from tasks.diff.judge.metric_rows import make_row, missing_decision, not_judged
from tasks.metrics.memory_metrics import DEVICE_GROWTH, DEVICE_PEAK, HOST_GROWTH, HOST_PEAK
from tasks.metrics.metric import Metric
from tasks.records.compared_case import Decision, MetricDiff, Verdict
from tasks.records.run_facts import Measured

PEAK_NOISE_GIB = 0.125  # peaks of twelve equal runs of a process of 0.5 GiB lay within 0.07 GiB
LEAST_MIB = 16.0  # a smaller steady growth in a whole run is no leak: in fifteen equal runs it was 0 to 0.2 MiB
# for rules that were stored before memory was judged
STATED = {
    HOST_PEAK.name: Tolerance(relative=0.05, why="a host's allocator keeps what it has freed"),
    DEVICE_PEAK.name: Tolerance(relative=0.01, why="a device's allocator rounds sizes up"),
}


def memory_rows(arms: Arms, tolerances: Mapping[str, Tolerance]) -> dict[str, MetricDiff | None]:
    """Return metric → its row; None if an arm that did not die has no value."""
    rows: dict[str, MetricDiff | None] = {}
    for peak, noise in ((HOST_PEAK, PEAK_NOISE_GIB), (DEVICE_PEAK, 0.0)):
        tolerance = tolerances.get(peak.tolerance, STATED[peak.name])
        cells = _cells(peak, arms)
        rows[peak.name] = cells and make_row(
            peak, cells, arms, missing_decision(cells, arms) or _by_runs(decide_peak(cells, tolerance, noise), arms)
        )
    for growth in (HOST_GROWTH, DEVICE_GROWTH):
        cells = _cells(growth, arms)
        rows[growth.name] = cells and make_row(
            growth, cells, arms, missing_decision(cells, arms) or _by_runs(decide_growth(cells), arms)
        )
    return rows


def _by_runs(decision: Decision, arms: Arms) -> Decision:
    return decision.replace(evidence=show_runs((len(arms[0].runs), len(arms[1].runs))))


def _cells(metric: Metric, arms: Arms) -> tuple[Measured, Measured] | None:
    assert metric.of_runs is not None
    left, right = (_cell(metric, arm) for arm in arms)
    lacking = [arm for arm, cell in zip(arms, (left, right), strict=True) if not cell.text]
    return None if len(lacking) == len(arms) or any(not arm.dead for arm in lacking) else (left, right)


def _cell(metric: Metric, arm: ArmRuns) -> Measured:
    assert metric.of_runs is not None
    return metric.of_runs(arm.runs, arm.facts)


def decide_peak(cells: tuple[Measured, Measured], tolerance: Tolerance, noise: float) -> Decision:
    """Decide two peaks in GiB. noise: what equal runs may differ by, in GiB, where the tolerance is smaller.

    With `noise`, of a host, a difference is only shown: the peak contains the compiler, which a cached program spares.
    """
    left, right = (cell.value or 0.0 for cell in cells)
    allowed = max((tolerance.relative or 0.0) * left, tolerance.absolute or 0.0)
    limit, text, why = allowed, show_threshold(tolerance), tolerance.why
    if noise > allowed:
        limit, text, why = noise, f"±{noise:g} GiB", "equal runs of a small process differ by half of that"
    verdict = _word(right - left, limit)
    shown = show_percentage(left, right) if left else f"{right - left:+.3f} GiB"
    reason = f"within {text}: {why}" if verdict == "same" else f"differs by {shown}, allowed is {text} ({why})"
    if noise and verdict != "same":
        return not_judged(f"{reason}; a compile that one run read from its cache explains as much")
    return Decision(verdict=verdict, reason=reason, threshold=limit, threshold_text=text)


def decide_growth(cells: tuple[Measured, Measured]) -> Decision:
    """Decide two growths in MiB per step. LEAST_MIB in the shorter run is no growth."""
    left, right = (cell.value or 0.0 for cell in cells)
    steps = min(cell.samples for cell in cells)
    limit = LEAST_MIB / steps
    verdict = _word(right - left, limit)
    text = f"±{limit:.2g} MiB/step"
    kept = f"{LEAST_MIB:g} MiB in all {steps} steps are no leak"
    if verdict == "same":
        return Decision(verdict=verdict, reason=f"within {text}: {kept}", threshold=limit, threshold_text=text)
    grows = "the candidate's memory grows" if right > left else "the baseline's memory grows"
    reason = f"{grows} by {abs(right - left):.3g} MiB more per step, also without its largest jumps; {kept}"
    return Decision(verdict=verdict, reason=reason, threshold=limit, threshold_text=text)


def _word(difference: float, limit: float) -> Verdict:
    if abs(difference) <= limit:
        return "same"
    return "regressed" if difference > 0 else "improved"
