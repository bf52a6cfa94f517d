"""Turns the step times of two arms into rows: the steady step, and apart from it the first one."""

from collections.abc import Mapping
from statistics import median
from typing import Literal

import numpy as np

from configs.comparison import Tolerance
from configs.schema import Frozen
from tasks.diff.arms import ArmRuns, cpu_seconds, is_exact, step_table, wall_s
from tasks.diff.decide import Decision
from tasks.diff.decide_noisy import CHANCE, Cost, decide_noisy
from tasks.diff.effect import Sample
from tasks.diff.levels import Levels, find_levels
from tasks.diff.noise import NoisePrior, pair_unrest
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
CPU_TIME = Metric(
    name="step_cpu_time_s",
    title="CPU time per step",
    unit="s",
    better="lower",
    rule="processor time of all threads; median without the first step",
    decimals=4,
)
# in the history: the level of the quick steps, see `levels`
QUICK = {STEP_TIME.name: "step_time_quick_s", CPU_TIME.name: "step_cpu_time_quick_s"}
PRINTED_UNIT_S = 0.001  # of every dialect's step lines, or finer
FIRST_STEP = Metric(
    name="first_step_s", title="First step", unit="s", better="lower", rule="seconds of the first step", decimals=3
)


class Circumstances(Frozen):
    """What a decision about noise depends on besides the runs: see `decide_noisy`."""

    priors: Mapping[str, NoisePrior] = {}  # by the names in QUICK, before and behind the colon
    chance: float = CHANCE
    chips: int | None = None
    price: float | None = None
    remedy: str = ""  # where runs cannot be asked for

    def shared_by(self, metrics: int) -> "Circumstances":
        """The same for each of so many metrics: Bonferroni, as over the cases."""
        return self.model_copy(update={"chance": self.chance / metrics})


def step_time_row(
    arms: Arms, tolerance: Tolerance, *, same_program: bool, given: Circumstances | None = None
) -> tuple[MetricDiff, Decision]:
    """The row that speed is judged by, and its decision, which MaxView's rows share."""
    given = given or Circumstances()
    states = (_steady_runs(arms[0]), _steady_runs(arms[1]))
    cells = (_steady_cell(arms[0], states[0]), _steady_cell(arms[1], states[1]))
    decision = missing_decision(cells, arms)
    levels = (_levels(arms[0]), _levels(arms[1]))
    if decision is None and not (levels[0] and levels[1]):
        reason = "a median needs two steps after the first that are no dispatch artefacts: train more steps"
        if same_program:
            reason = f"both arms run the same compiled program; {reason} to see its speed"
        decision = Decision(verdict="same" if same_program else "unknown", reason=reason)
    if decision is None:
        decision = decide_levels(levels, STEP_TIME, arms, tolerance, same_program=same_program, given=given)
    return make_row(STEP_TIME, cells, arms, decision), decision


def cpu_time_row(
    arms: Arms, tolerance: Tolerance, *, same_program: bool, given: Circumstances | None = None
) -> MetricDiff | None:
    """The processor time of a step; None unless the runs measured it, that is where the processor is the device.

    Other work on the machine makes the wall time of a step twice as long, and its processor time a few percent shorter
    (docs/decisions/0005): so it finds what the steady step time cannot while the machine is shared.
    """
    levels = (_cpu_levels(arms[0]), _cpu_levels(arms[1]))
    lacking = [len(found) < len(arm.runs) for found, arm in zip(levels, arms, strict=True)]
    if not any(levels) or any(lack and not arm.dead for lack, arm in zip(lacking, arms, strict=True)):
        return None
    cells = (_cpu_cell(arms[0], levels[0]), _cpu_cell(arms[1], levels[1]))
    decision = missing_decision(cells, arms) or decide_levels(
        levels, CPU_TIME, arms, tolerance, same_program=same_program, given=given or Circumstances()
    )
    return make_row(CPU_TIME, cells, arms, decision)


def decide_levels(
    levels: tuple[list[Levels], list[Levels]],
    metric: Metric,
    arms: Arms,
    tolerance: Tolerance,
    *,
    same_program: bool,
    given: Circumstances,
) -> Decision:
    """What the levels of both arms' runs say about a metric of which less is better."""
    return decide_noisy(
        _sample(levels, "quick", given.priors.get(QUICK[metric.name])),
        _sample(levels, "middle", given.priors.get(metric.name)),
        better="lower",
        tolerance=tolerance,
        same_program=same_program,
        cost=_cost(arms, given),
        chance=given.chance,
        remedy=given.remedy,
    )


def _levels(arm: ArmRuns) -> list[Levels]:
    return [
        levels
        for run in arm.runs
        if steady(run, table := step_table(run))
        if (levels := find_levels(table["seconds"].to_numpy()[1:], unit=0.0 if is_exact(run) else PRINTED_UNIT_S))
    ]


def _cpu_cell(arm: ArmRuns, levels: list[Levels]) -> Cell:
    if not levels:
        return Cell()
    middle = median(level.middle.seconds for level in levels)
    return Cell(value=middle, text=f"{middle:.4f}", source=_second_step(arm))


def _cpu_levels(arm: ArmRuns) -> list[Levels]:
    return [levels for run in arm.runs if (seconds := cpu_seconds(run)) is not None if (levels := find_levels(seconds))]


def _sample(
    levels: tuple[list[Levels], list[Levels]], name: Literal["quick", "middle"], prior: NoisePrior | None
) -> Sample:
    sides = [[run.quick if name == "quick" else run.middle for run in side] for side in levels]
    errors = [level.error for side in sides for level in side]
    baseline, candidate = (tuple(level.seconds for level in side) for side in sides)
    return Sample(
        baseline=baseline,
        candidate=candidate,
        unrest=tuple(pair_unrest(one.unrest, other.unrest) for one, other in zip(*levels, strict=False)),
        error=float(np.sqrt(np.mean(np.square(errors)))),
        prior=prior,
    )


def _cost(arms: Arms, given: Circumstances) -> Cost | None:
    """What one more run of each arm takes, if the logs tell how long they took."""
    times = [wall_s(arm) for arm in arms]
    known = [seconds for seconds in times if seconds is not None]
    return None if len(known) < len(times) else Cost(seconds=sum(known), chips=given.chips, price=given.price)


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
