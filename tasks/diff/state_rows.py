"""Turns what two arms computed and needed into rows: the loss of every step, and the program's memory."""

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns
from tasks.diff.decide import Decision, decide_exact, show_threshold
from tasks.diff.parity import LossParity
from tasks.diff.rows import Arms, Cell, Metric, make_row, missing_decision, step_source
from tasks.records import MetricDiff

LOSS = Metric(
    name="loss_per_step",
    title="Loss, step by step",
    unit="",
    better="equal",
    rule="first step whose loss differs; judged by the largest difference",
    decimals=6,
)
MEMORY = Metric(
    name="program_memory_gb",
    title="Program memory",
    unit="GB",
    better="lower",
    rule="the compiler's forecast for one device",
    decimals=1,
)


def loss_row(arms: Arms, parity: LossParity, tolerance: Tolerance) -> MetricDiff:
    """Whether both arms compute the same: every common step, not only the last."""
    cells = (_steps_cell(arms[0]), _steps_cell(arms[1]))
    decision = missing_decision(cells, arms)
    if decision is None and not parity.common:
        decision = Decision(verdict="unknown", reason="the arms have no step in common")
    metric = LOSS
    if decision is None and (parity.first is None or parity.worst is None):
        decision = Decision(
            verdict="same",
            reason=f"equal to {parity.precision} at all {parity.common} common steps",
            threshold=tolerance.absolute,
            threshold_text=show_threshold(tolerance, parity.unit),
        )
    if decision is None:
        first, worst = parity.first, parity.worst
        assert first is not None  # the branch above
        assert worst is not None
        step, left, right = worst
        judged = decide_exact(
            left, right, better="equal", tolerance=tolerance, precision=parity.precision, unit=parity.unit
        )
        where = f"differs first at step {first.step} ({first.baseline} and {first.candidate})"
        where += "" if step == first.step else f", most at step {step}"
        decision = judged.model_copy(update={"reason": f"{where}: {judged.reason}"})
        cells = (
            Cell(value=float(first.baseline), text=first.baseline, source=step_source(arms[0], first.step)),
            Cell(value=float(first.candidate), text=first.candidate, source=step_source(arms[1], first.step)),
        )
        metric = LOSS.model_copy(update={"decimals": len(first.baseline.partition(".")[2]) if parity.unit else 6})
    return make_row(metric, cells, arms, decision)


def _steps_cell(arm: ArmRuns) -> Cell:
    return Cell(text=f"{arm.reading.steps.height} steps" if arm.reading.steps.height else "")


def memory_row(arms: Arms, tolerance: Tolerance) -> MetricDiff:
    """What the compiled step needs on one device, as the compiler says it."""
    cells = (_memory_cell(arms[0]), _memory_cell(arms[1]))
    decision = missing_decision(cells, arms)
    if decision is None:
        left, right = cells[0].value, cells[1].value
        assert left is not None  # both texts are there, so both values are
        assert right is not None
        decision = decide_exact(
            left, right, better="lower", tolerance=tolerance, precision="printed precision (1 decimal)", unit=0.1
        )
    return make_row(MEMORY, cells, arms, decision)


def _memory_cell(arm: ArmRuns) -> Cell:
    memory = arm.reading.memory
    if memory.total_gb is None:
        return Cell()
    return Cell(value=memory.total_gb, text=f"{memory.total_gb:.1f}", source=memory.source)
