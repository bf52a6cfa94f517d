"""Turns the step times of two arms into rows: the steady step, and apart from it the first one."""

from collections.abc import Mapping
from math import expm1, log
from typing import Literal

import numpy as np

from configs.noise import DeviceKind, device_kind_of
from configs.schema import Frozen
from configs.verdict_rules import VerdictRules
from tasks.diff.arms import ArmRuns, place_of
from tasks.diff.decide_noisy import CHANCE, Cost, Remedy, decide_noisy
from tasks.diff.effect import Sample
from tasks.diff.mean_step import differ_in_mean, seconds_between_steps
from tasks.diff.metric_row import Arms, Cell, Metric, make_row, missing_decision, not_judged
from tasks.diff.noise import Past, learn_noise
from tasks.diff.step_time_levels import CLOSE, Levels, find_levels
from tasks.diff.where_run import lie_apart
from tasks.ingest.merged_steps import cpu_seconds, step_table, timed_steps, waited_seconds
from tasks.records import Decision, MetricDiff, RunRecord, seconds_between

TOO_FEW = "too few steps"
STEP_TIME = Metric(
    name="step_time_s",
    title="Step time, steady",
    unit="s",
    better="lower",
    rule="10 % quantile without the first step and dispatch artefacts, mean of the runs; ±: what a run leaves open",
    decimals=4,
)
CPU_TIME = Metric(
    name="step_cpu_time_s",
    title="CPU time per step",
    unit="s",
    better="lower",
    rule="processor time of all threads; as the step time",
    decimals=4,
)
# the same metric where its middle steps decided: another title, so that one name stands for one number
MIDDLE = {
    metric.name: metric.model_copy(
        update={"title": title, "rule": "median of the steps but the first, mean of the runs"}
    )
    for metric, title in ((STEP_TIME, "Step time, middle steps"), (CPU_TIME, "CPU time per step, middle steps"))
}
# in the history: the level of the quick steps, see `levels`
QUICK = {STEP_TIME.name: "step_time_quick_s", CPU_TIME.name: "step_cpu_time_quick_s"}
SHIFTING = frozenset({"tpu", "gpu"})  # on a processor other work comes in bursts, which leave the quick steps alone
SHIFTED = 2.0  # stated deviations of equal runs, that the level changes by inside a run which does not keep it
MOST_SLOW = 0.2  # of the steps may be slow in one arm alone, where the arms are the same
FIRST_STEP = Metric(
    name="first_step_s", title="First step", unit="s", better="lower", rule="seconds of the first step", decimals=3
)


type SideLevels = tuple[list[Levels], list[Levels]]  # of each arm's runs


class Circumstances(Frozen):
    """What a decision about noise depends on besides the runs and the rules: see `decide_noisy`."""

    past: Mapping[str, Past] = {}  # by the names in QUICK, before and behind the colon
    chance: float = CHANCE
    excuse: str = ""  # why any difference is noise
    instead: str = ""  # of running more, where runs cannot be asked for

    def shared_by(self, metrics: int) -> "Circumstances":
        """The same for each of so many metrics: Bonferroni, as over the cases."""
        return self.model_copy(update={"chance": self.chance / metrics})


def step_time_row(arms: Arms, rules: VerdictRules, given: Circumstances) -> tuple[MetricDiff, Decision]:
    """The row that speed is judged by, and its decision, which MaxView's rows share."""
    # a run that did not measure its waits is compared by the wall
    less_waits = all(waited_seconds(run) is not None for arm in arms for run in arm.runs)
    levels = (levels_of(arms[0], less_waits=less_waits), levels_of(arms[1], less_waits=less_waits))
    return _clock_row(STEP_TIME, levels, arms, rules, given)


def cpu_time_row(arms: Arms, rules: VerdictRules, given: Circumstances) -> MetricDiff | None:
    """The processor time of a step; None unless the runs measured it, that is where the processor is the device.

    Other work on the machine makes the wall time of a step twice as long, and its processor time a few percent shorter
    (docs/decisions/0010): so it finds what the steady step time cannot while the machine is shared.
    """
    levels = (_cpu_levels(arms[0]), _cpu_levels(arms[1]))
    lacking = [len(found) < len(arm.runs) for found, arm in zip(levels, arms, strict=True)]
    if not any(levels) or any(lack and not arm.dead for lack, arm in zip(lacking, arms, strict=True)):
        return None
    return _clock_row(CPU_TIME, levels, arms, rules, given)[0]


def _clock_row(
    metric: Metric, levels: SideLevels, arms: Arms, rules: VerdictRules, given: Circumstances
) -> tuple[MetricDiff, Decision]:
    cells = (_level_cell(arms[0], levels[0], metric), _level_cell(arms[1], levels[1], metric))
    decision = missing_decision(cells, arms)
    if decision is None and not all(levels):
        reason = "too few steps: a level needs two after the first that are no dispatch artefacts; train more steps"
        if given.excuse:
            reason = f"{given.excuse}; {reason} to see its speed"
        decision = Decision(verdict="same" if given.excuse else "unknown", reason=reason)
    decision = decision or decide_levels(levels, metric, arms, rules, given)
    if decision.level == "middle steps":  # each number of the row is of the level that was judged
        metric = MIDDLE[metric.name]
        cells = (_level_cell(arms[0], levels[0], metric), _level_cell(arms[1], levels[1], metric))
    return make_row(metric, cells, arms, decision), decision


def decide_levels(
    levels: SideLevels, metric: Metric, arms: Arms, rules: VerdictRules, given: Circumstances
) -> Decision:
    """What the levels of both arms' runs say about a metric of which less is better."""
    kind = kind_of(arms) if metric is STEP_TIME else "cpu_time"
    between, apart = lie_apart(arms, rules.noises[kind])
    shifts = [[_shift_of(run, kind, rules) for run in side] for side in levels]

    def sample(name: Literal["quick", "middle"], past: Past | None) -> Sample:
        sides = [[run.quick if name == "quick" else run.middle for run in side] for side in levels]
        errors = [level.error for side in sides for level in side]
        baseline, candidate = (tuple(level.seconds for level in side) for side in sides)
        return Sample(
            baseline=baseline,
            candidate=candidate,
            noise=learn_noise(rules.noises[kind], past),
            error=float(np.sqrt(np.mean(np.square([errors, [*shifts[0], *shifts[1]]]).sum(axis=0)))),
            between=between,
            apart=apart,
        )

    decision = decide_noisy(
        sample("quick", given.past.get(QUICK[metric.name])),
        sample("middle", given.past.get(metric.name)),
        tolerance=rules.tolerance_of_time("step_time_s" if metric is STEP_TIME else "step_cpu_time_s", kind),
        excuse=given.excuse,
        remedy=Remedy(cost=_cost(arms, rules), instead=given.instead),
        chance=given.chance,
    )
    if given.excuse:
        return decision
    why = _why_not_same(levels, arms) if decision.verdict == "same" else ""
    if why:
        return decision.model_copy(update={"verdict": "unknown", "reason": f"{why}; {decision.reason}"})
    inside = _name_shift(arms, shifts) if decision.verdict == "unknown" else ""
    return decision.model_copy(update={"reason": f"{inside}{decision.reason}"}) if inside else decision


def _shift_of(run: Levels, kind: DeviceKind, rules: VerdictRules) -> float:
    """How uncertain a run's level is because it changes inside the run, as a logarithm."""
    known = kind in SHIFTING and run.shift > SHIFTED * rules.noises[kind].equal_runs
    return run.shift / 2 if known else 0.0  # the standard deviation of two levels that are equally likely


def _name_shift(arms: Arms, shifts: list[list[float]]) -> str:
    """Which run does not keep its level."""
    size, arm = max((size, arm.label) for arm, side in zip(arms, shifts, strict=True) for size in side)
    return f"the level changes by {100 * expm1(2 * size):.0f} % inside a run of {arm}; " if size else ""


def _why_not_same(levels: SideLevels, arms: Arms) -> str:
    """What differs though the quick and the middle steps do not: the mean step, or how many steps are slow."""
    if why := differ_in_mean(arms, ([run.mean for run in levels[0]], [run.mean for run in levels[1]])):
        return why
    slow = [float(np.mean([run.slow for run in side])) for side in levels]
    if abs(slow[1] - slow[0]) <= MOST_SLOW:
        return ""
    share = f"{slow[0]:.0%} of the baseline's steps and {slow[1]:.0%} of the candidate's"
    return f"{share} take more than {CLOSE:g} × the usual step"


def kind_of(arms: Arms) -> DeviceKind:
    """The kind of device that the arms ran on, as their logs have it, or else as they were told to."""
    run = arms[0].first
    told = run.plan.environment.get("JAX_PLATFORMS") if run.plan is not None else None
    here = run.reading.environment
    return device_kind_of(here.device_kind, here.backend or told)


def levels_of(arm: ArmRuns, *, less_waits: bool = True) -> list[Levels]:
    """The levels of every run that has any; `less_waits`: see `steady_levels`."""
    found = []
    for run in arm.runs:
        if levels := steady_levels(run, less_waits=less_waits):
            found.append(levels.model_copy(update={"mean": levels.mean + seconds_between_steps(run)}))
    return found


def steady_levels(run: RunRecord, *, less_waits: bool = True) -> Levels | None:
    """The levels of a run's step times; where the processor is the device, less what other work took from its threads.

    On a shared machine the time on the wall tells of the others: see docs/decisions/0050.
    """
    table, unit = timed_steps(run)
    seconds, waited = table["seconds"].to_numpy()[1:], waited_seconds(run) if less_waits else None
    return find_levels(seconds if waited is None else seconds - waited, unit=unit)


def _cpu_levels(arm: ArmRuns) -> list[Levels]:
    return [levels for run in arm.runs if (seconds := cpu_seconds(run)) is not None if (levels := find_levels(seconds))]


def _cost(arms: Arms, rules: VerdictRules) -> Cost | None:
    """What one more run of each arm takes, if the logs tell how long they took."""
    left, right = (seconds_between(arm.reading.started, arm.reading.ended) for arm in arms)
    if left is None or right is None:
        return None
    return Cost(seconds=left + right, chips=rules.chips, price=rules.price)


def _level_cell(arm: ArmRuns, levels: list[Levels], metric: Metric) -> Cell:
    if not levels:
        return Cell(text="" if arm.dead else TOO_FEW)
    shown = [run.middle if metric in MIDDLE.values() else run.quick for run in levels]
    # the geometric mean over the runs: the difference of two arms' is the effect
    level = float(np.exp(np.mean([log(run.seconds) for run in shown])))
    error = max(run.error for run in shown)
    return Cell(value=level, text=f"{level:.4f} ± {error * level:.4f}", source=place_of(arm.reading.steps, 1))


def first_step_row(arms: Arms) -> MetricDiff:
    """The first step, which waits for compilation: once per run, and no two are alike, so it is shown, not judged."""
    cells = (_first_cell(arms[0]), _first_cell(arms[1]))
    reason = "compilation and the first execution, once per run"
    return make_row(FIRST_STEP, cells, arms, missing_decision(cells, arms) or not_judged(reason))


def _first_cell(arm: ArmRuns) -> Cell:
    table = step_table(arm.first)
    if not table.height or table["seconds"][0] is None:
        return Cell()
    seconds = table["seconds"][0]
    return Cell(value=seconds, text=f"{seconds:.3f}", source=place_of(table))
