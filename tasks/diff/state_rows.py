"""Turns what the compiled programs of two arms need into a row."""

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns
from tasks.diff.decide import decide_exact
from tasks.diff.metric_row import Arms, Cell, Metric, make_row, missing_decision
from tasks.records import MetricDiff, RunRecord

MEMORY = Metric(
    name="program_memory_gb",
    title="Program memory",
    unit="GB",
    better="lower",
    rule="the compiler's forecast for one device",
    decimals=1,
)


EXACT_DECIMALS = 4  # of GB, where the trainer tells the bytes
GB = 2**30  # as MaxText's lines count it
SUMMANDS = ("argument", "output", "temp")  # less what arguments and outputs share: as MaxText's line adds them up


def memory_row(arms: Arms, tolerance: Tolerance) -> MetricDiff:
    """What the compiled step needs on one device, as the compiler says it: in bytes, or as both logs print it."""
    exact = all(program_gb(run) is not None for arm in arms for run in arm.runs)
    metric = MEMORY.model_copy(update={"decimals": EXACT_DECIMALS}) if exact else MEMORY
    cells = (_memory_cell(arms[0], exact=exact), _memory_cell(arms[1], exact=exact))
    decision = missing_decision(cells, arms)
    if decision is None:
        left, right = cells[0].value, cells[1].value
        assert left is not None  # both texts are there, so both values are
        assert right is not None
        precision = "the byte" if exact else "printed precision (1 decimal)"
        decision = decide_exact(
            left, right, better="lower", tolerance=tolerance, precision=precision, unit=0.0 if exact else 0.1
        )
    return make_row(metric, cells, arms, decision)


def program_gb(run: RunRecord) -> float | None:
    """What the step needs in GB by the trainer's own record of the compiler's forecast; None if it has none."""
    stated = run.program.get("memory_bytes")
    sizes = [stated.get(name) for name in (*SUMMANDS, "alias")] if isinstance(stated, dict) else [None]
    known = [size for size in sizes if isinstance(size, int)]
    return (sum(known[:-1]) - known[-1]) / GB if len(known) == len(sizes) else None


def _memory_cell(arm: ArmRuns, *, exact: bool) -> Cell:
    memory = arm.reading.memory
    value = program_gb(arm.first) if exact else memory.total_gb
    if value is None:
        return Cell()
    return Cell(value=value, text=f"{value:.{EXACT_DECIMALS if exact else 1}f}", source=memory.source)
