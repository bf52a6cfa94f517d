"""Turns how far two arms agree, step by step, into rows: the loss, and every other value that has no noise."""

from collections.abc import Sequence

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns
from tasks.diff.decide import Decision, decide_exact, show_threshold
from tasks.diff.parity import MetricParity
from tasks.diff.rows import Arms, Cell, Metric, make_row, missing_decision
from tasks.records import MetricDiff

LOSS = Metric(
    name="loss_per_step",
    title="Loss, step by step",
    unit="",
    better="equal",
    rule="first step whose loss differs in any run; judged by the largest difference",
    decimals=6,
)
VALUES = Metric(
    name="values_per_step",
    title="Other values, step by step",
    unit="",
    better="equal",
    rule="what else every run writes and no clock decides: norms, rates, counts",
    decimals=None,
)
ORDER = ("same", "improved", "unknown", "regressed")


def loss_row(arms: Arms, found: MetricParity, tolerance: Tolerance) -> MetricDiff:
    """Whether both arms compute the same: every common step of every run, not only the last."""
    cells = (_steps_cell(arms[0]), _steps_cell(arms[1]))
    decision = missing_decision(cells, arms)
    if decision is not None:
        return make_row(LOSS, cells, arms, decision)
    metric, first = LOSS, found.parity.first
    if first is not None:
        texts = (first.baseline, first.candidate)
        cells = (
            Cell(value=float(texts[0]), text=texts[0], source=found.places[0]),
            Cell(value=float(texts[1]), text=texts[1], source=found.places[1]),
        )
        metric = LOSS.model_copy(update={"decimals": len(texts[0].partition(".")[2]) if found.unit else 6})
    return make_row(metric, cells, arms, judge_parity(arms, found, tolerance))


def values_row(arms: Arms, found: Sequence[MetricParity], tolerance: Tolerance) -> MetricDiff | None:
    """The worst of all other deterministic values in one row; None if the runs share none."""
    if not found:
        return None
    judged = [(item.parity, judge_parity(arms, item, tolerance)) for item in found]
    _, worst = max(judged, key=lambda pair: ORDER.index(pair[1].verdict))
    told = [f"{parity.metric} {decision.reason}" for parity, decision in judged if decision.verdict == worst.verdict]
    names = ", ".join(parity.metric for parity, _ in judged)
    reason = f"{names}: {worst.reason}" if worst.verdict == "same" else "; ".join(told)
    different = [(parity, item) for (parity, _), item in zip(judged, found, strict=True) if parity.first]
    count = "1 value" if len(judged) == 1 else f"{len(judged)} values"
    texts = (count, count)
    places = different[0][1].places if different else (None, None)
    if different and (first := different[0][0].first):
        texts = (f"{first.metric} {first.baseline}", f"{first.metric} {first.candidate}")
    cells = (Cell(text=texts[0], source=places[0]), Cell(text=texts[1], source=places[1]))
    return make_row(VALUES, cells, arms, worst.model_copy(update={"reason": reason}))


def judge_parity(arms: Arms, found: MetricParity, tolerance: Tolerance) -> Decision:
    """What the largest difference says; nothing, where runs of one arm differ by as much among themselves."""
    parity = found.parity
    limit = {"threshold": tolerance.absolute, "threshold_text": show_threshold(tolerance, found.unit)}
    runs = f" of {parity.runs[0]} and {parity.runs[1]} runs" if max(parity.runs) > 1 else ""
    if not parity.steps:
        return Decision(verdict="unknown", reason="the arms have no step in common")
    varying = [f"{arm.label} from step {side.step} on" for arm, side in zip(arms, found.within, strict=True) if side]
    among = f"runs of one arm differ among themselves ({' and '.join(varying)})"
    if parity.first is None:
        if varying:
            return Decision(verdict="unknown", reason=f"{among}: equal values cannot be asked for", **limit)
        reason = f"equal to {parity.precision} at all {parity.steps} common steps{runs}"
        return Decision(verdict="same", reason=reason, **limit)
    first = parity.first
    where = f"differs first at step {first.step} ({first.baseline} and {first.candidate})"
    where += "" if parity.largest_step == first.step else f", most at step {parity.largest_step}"
    if found.is_noise:
        return Decision(verdict="unknown", reason=f"{where}; but {among}, and by about as much", **limit)
    assert found.worst is not None  # something differs
    _, left, right = found.worst
    judged = decide_exact(left, right, better="equal", tolerance=tolerance, precision=parity.precision, unit=found.unit)
    trend = f"; {parity.trend}" if parity.different > 1 else ""
    return judged.model_copy(update={"reason": f"{where}: {judged.reason}{trend}"})


def _steps_cell(arm: ArmRuns) -> Cell:
    counts = [run.reading.steps.height for run in arm.runs]
    runs = f" × {len(counts)}" if len(counts) > 1 else ""
    return Cell(text=f"{max(counts)} steps{runs}" if any(counts) else "")
