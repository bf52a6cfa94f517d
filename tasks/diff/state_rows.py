"""Turns what the compiled programs of two arms need into a row."""

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns
from tasks.diff.decide import decide_exact
from tasks.diff.rows import Arms, Cell, Metric, make_row, missing_decision
from tasks.records import MetricDiff

MEMORY = Metric(
    name="program_memory_gb",
    title="Program memory",
    unit="GB",
    better="lower",
    rule="the compiler's forecast for one device",
    decimals=1,
)


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
