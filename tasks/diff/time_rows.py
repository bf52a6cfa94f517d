"""Turns the step times of two arms into rows: the steady step, and apart from it the first one."""

from statistics import median

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns, step_table, wall_s
from tasks.diff.decide import Decision, decide_noisy
from tasks.diff.rows import NOT_JUDGED, Arms, Cell, Metric, make_row, missing_decision
from tasks.diff.steady import Steady, steady
from tasks.records import MetricDiff, Source

TOO_FEW = "too few steps"
STEP_TIME = Metric(
    name="step_time_s",
    title="Step time, steady",
    unit="s",
    better="lower",
    rule="median without the first step; spread = between the quartiles, stalls left out",
    decimals=3,
)
FIRST_STEP = Metric(
    name="first_step_s", title="First step", unit="s", better="lower", rule="seconds of the first step", decimals=3
)


def step_time_row(arms: Arms, tolerance: Tolerance, *, same_program: bool) -> tuple[MetricDiff, Decision]:
    """The row that speed is judged by, and its decision, which MaxView's rows share."""
    states = (_steady_runs(arms[0]), _steady_runs(arms[1]))
    cells = (_steady_cell(arms[0], states[0]), _steady_cell(arms[1], states[1]))
    costs = [wall_s(arm) for arm in arms]
    decision = missing_decision(cells, arms)
    if decision is None and not (states[0] and states[1]):
        reason = "a median needs two steps after the first: train more steps"
        if same_program:
            reason = f"both arms run the same compiled program; {reason} to see its speed"
        decision = Decision(verdict="same" if same_program else "unknown", reason=reason)
    if decision is None:
        decision = decide_noisy(
            [run.median_s for run in states[0]],
            [run.median_s for run in states[1]],
            better="lower",
            tolerance=tolerance,
            spread=max(run.spread_s for runs in states for run in runs),
            same_program=same_program,
            cost_s=None if None in costs else sum(cost for cost in costs if cost is not None),
        )
    return make_row(STEP_TIME, cells, arms, decision), decision


def _steady_runs(arm: ArmRuns) -> list[Steady]:
    return [state for run in arm.runs if (state := steady(run, step_table(run)))]


def _steady_cell(arm: ArmRuns, states: list[Steady]) -> Cell:
    if not states:
        return Cell(text="" if arm.dead else TOO_FEW)
    middle = median(state.median_s for state in states)
    spread = max(state.spread_s for state in states)
    return Cell(value=middle, text=f"{middle:.3f} (spread {spread:.3f})", source=_second_step(arm))


def _second_step(arm: ArmRuns) -> Source | None:
    steps = arm.reading.steps
    if steps.height < 2:
        return None
    row = steps.row(1, named=True)
    return Source(line=row["line"], offset=row["offset"])


def first_step_row(arms: Arms, *, same_program: bool) -> MetricDiff:
    """The first step, which waits for compilation: once per run, and no two are alike, so it is shown, not judged."""
    cells = (_first_cell(arms[0]), _first_cell(arms[1]))
    reason = "compilation and the first execution, once per run"
    return make_row(FIRST_STEP, cells, arms, missing_decision(cells, arms) or not_judged(reason, same_program))


def _first_cell(arm: ArmRuns) -> Cell:
    table = step_table(arm.first)
    if not table.height or table["seconds"][0] is None:
        return Cell()
    row = table.row(0, named=True)
    source = None if row["line"] is None else Source(line=row["line"], offset=row["offset"])
    return Cell(value=row["seconds"], text=f"{row['seconds']:.3f}", source=source)


def not_judged(reason: str, same_program: bool) -> Decision:
    if same_program:
        reason = f"{reason}; the program is the same on both sides"
    return Decision(verdict="same" if same_program else "unknown", reason=reason, threshold_text=NOT_JUDGED)
