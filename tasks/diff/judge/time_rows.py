"""Judges the times of two arms: builds the rows of the step time and of the CPU time per step, and explains them."""

from collections.abc import Mapping
from math import expm1, log
from typing import Literal

import numpy as np
import polars as pl

from configs.verdict_rules import DeviceKind, VerdictRules, device_kind_of
from tasks.diff.examine.arms import ArmRuns, Arms, know_waits
from tasks.diff.examine.circumstances import Circumstances
from tasks.diff.examine.noise import Past, estimate_noise_between, learn_noise
from tasks.diff.judge.decide import MIN_REPEATS
from tasks.diff.judge.decide_noisy import Cost, Remedy, decide_noisy, show_runs
from tasks.diff.judge.effect import Sample
from tasks.diff.judge.metric_rows import make_row, missing_decision
from tasks.diff.judge.run_regimes import name_regime
from tasks.metrics.merged_steps import place_of_row, timed_steps
from tasks.metrics.metric import Metric
from tasks.metrics.step_time_levels import CLOSE
from tasks.metrics.time_account import COMPUTE, is_steady
from tasks.metrics.time_metrics import CPU_TIME, STEP_TIME, TOO_FEW
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.run_facts import Measured, StepLevels, TimeAccount, seconds_between

SHIFTING = frozenset({"tpu", "gpu"})  # devices whose shifts count; on CPUs, bursts of load do not move the steady level
# A larger shift of the step time during a run makes the run's level uncertain, as a logarithm; with MIN_REPEATS runs of
# each arm or more, whose scatter shows what smaller shifts do to a level, only a clock that throttles or flips
SHIFTED, THROTTLED = 0.01, 0.05
ALIKE = 0.5  # shifts of all runs are one warm-up if the smallest is at least this share of the largest
MAX_SLOW = 0.2  # largest difference of the arms' shares of slow steps for the verdict *same*
MAX_LONGER = 1.05  # for *same*: largest ratio of the slower arm's shortest mean step to the other arm's longest
MAX_LONGER_MEAN = 1.2  # for *same*: largest ratio of the arms' average steps; above MAX_LONGER, as a run may stall
TWICE = 2.0  # least ratio of the median steps for a verdict by separated steps
# parts of the time account before the first step and after the last
START_AND_END = ("start", "end", "outside", "wait at the end", "evaluation at the end")
STEP_COLUMN = "step_time_s"
# column of the metrics file with a part of the step time → the work in that part
STEP_PARTS: Mapping[str, str] = {
    "device_s": "the device and waiting for it",
    "input_s": "waiting for input",
    "save_s": "saving checkpoints",
    "report_s": "logging",
}
# whatever can slow down arms that are equal in all that is compared
OUTSIDE = "the machine, its environment or a dependency without a version"
OTHER_PART = "other code in the step loop"
NAMED_SHARE = 0.25  # least share of the difference for which a part is named


type SideLevels = tuple[list[StepLevels], list[StepLevels]]  # the levels of the baseline's and the candidate's runs


def step_time_row(arms: Arms, rules: VerdictRules, circumstances: Circumstances) -> tuple[MetricDiff, Decision]:
    """Return the row of the step time, and its decision, which other rows of times share."""
    less_waits = know_waits(arms)
    sides = [[one.levels.get(STEP_TIME.name) if less_waits else one.wall for one in arm.facts] for arm in arms]
    left, right = ([levels for levels in side if levels] for side in sides)
    return _clock_row(STEP_TIME, (left, right), arms, rules, circumstances)


def cpu_time_row(arms: Arms, rules: VerdictRules, circumstances: Circumstances) -> MetricDiff | None:
    """Return the row of the CPU time per step; None if no run has a level of it, as on TPUs and GPUs.

    None also if an arm in which no run died has a run without a level.

    Other load on the machine can double the wall time of a step, but changes its CPU time by a few percent only
    (docs/decisions/0010). So on a shared machine this row finds differences that the step time cannot show.
    """
    left, right = ([one.levels[CPU_TIME.name] for one in arm.facts if CPU_TIME.name in one.levels] for arm in arms)
    levels = (left, right)
    lacking = [len(known) < len(arm.runs) for known, arm in zip(levels, arms, strict=True)]
    if not any(levels) or any(lack and not arm.dead for lack, arm in zip(lacking, arms, strict=True)):
        return None
    return _clock_row(CPU_TIME, levels, arms, rules, circumstances)[0]


def _clock_row(
    metric: Metric, levels: SideLevels, arms: Arms, rules: VerdictRules, circumstances: Circumstances
) -> tuple[MetricDiff, Decision]:
    cells = (_level_cell(arms[0], levels[0], metric), _level_cell(arms[1], levels[1], metric))
    decision = missing_decision(cells, arms)
    if decision is None and not all(levels):
        reason = (
            "too few steps: at least two steps after the first must be free of dispatch artefacts; train more steps"
        )
        if circumstances.excuse:
            reason = f"{circumstances.excuse}; {reason} to see its speed"
        decision = Decision(verdict="same" if circumstances.excuse else "unknown", reason=reason)
    decision = decision or decide_levels(levels, metric, arms, rules, circumstances)
    if decision.level == "typical steps":  # the row shows the levels that decided
        metric = metric.at_middle()
        cells = (_level_cell(arms[0], levels[0], metric), _level_cell(arms[1], levels[1], metric))
    return make_row(metric, cells, arms, decision), decision


def decide_levels(
    levels: SideLevels, metric: Metric, arms: Arms, rules: VerdictRules, circumstances: Circumstances
) -> Decision:
    """Decide the step time or the CPU time (`metric`) from the levels of both arms' runs; lower is better."""
    kind = find_device_kind(arms) if metric is STEP_TIME else "cpu_time"
    between, apart = estimate_noise_between(arms, rules.noises[kind])
    shifts = find_shifts(levels, kind)

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
        sample("quick", circumstances.past.get(metric.quick)),
        sample("middle", circumstances.past.get(metric.name)),
        tolerance=rules.tolerance_of_time(metric.tolerance, kind),
        excuse=circumstances.excuse,
        remedy=Remedy(cost=_cost(arms, rules), instead=circumstances.instead),
        chance=circumstances.chance,
    )
    excused = bool(circumstances.excuse) and decision.verdict == "same"
    if metric is STEP_TIME and (excused or decision.verdict == "unknown") and (apart_by := find_separation(arms)):
        runs = show_runs((len(levels[0]), len(levels[1])))
        update = {"verdict": "regressed", "reason": apart_by, "runs_wanted": None, "evidence": runs}
        return decision.replace(**update)
    if circumstances.excuse:
        return decision
    why = _why_not_same(levels, arms) if decision.verdict == "same" else ""
    if why:
        return decision.replace(verdict="unknown", reason=f"{why}; {decision.reason}")
    unknown = decision.verdict == "unknown"
    inside = (_name_shift(arms, shifts) or name_regime(levels, arms)) if unknown else ""
    return decision.replace(reason=f"{inside}{decision.reason}") if inside else decision


def find_shifts(levels: SideLevels, kind: DeviceKind) -> list[list[float]]:
    """Return the uncertainty of each run's level due to its shift, as a logarithm, by arm; 0 if small, or on CPUs.

    A shift that all runs of both arms have, such as a warm-up, makes none of them uncertain.
    """
    sizes = [run.shift for side in levels for run in side]
    least = THROTTLED if min(map(len, levels)) >= MIN_REPEATS else SHIFTED
    if kind not in SHIFTING or min(sizes) >= max(SHIFTED, ALIKE * max(sizes)):
        return [[0.0 for _ in side] for side in levels]
    # standard deviation of two equally likely levels at this distance
    return [[run.shift / 2 if run.shift > least else 0.0 for run in side] for side in levels]


def _name_shift(arms: Arms, shifts: list[list[float]]) -> str:
    """Return the arm with the largest shift during a run and its size, in words; empty without shifts."""
    size, arm = max((size, arm.label) for arm, side in zip(arms, shifts, strict=True) for size in side)
    return f"the step time shifts by {100 * expm1(2 * size):.0f} % during a run of {arm}; " if size else ""


def find_separation(arms: Arms) -> str:
    """Return that each candidate step took longer than every baseline step, and twice as long on average; else "".

    Load beside the runs slows some steps of both arms, whose runs alternate. MIN_REPEATS runs of each are needed.
    """
    if min(len(arm.runs) for arm in arms) < MIN_REPEATS:
        return ""
    tables = [[timed_steps(run)[0]["seconds"].drop_nulls()[1:] for run in arm.runs] for arm in arms]
    if any(table.is_empty() for side in tables for table in side):
        return ""
    left, right = (pl.concat(side) for side in tables)
    slowest, quickest = float(left.max()), float(right.min())  # type: ignore[arg-type]
    if quickest <= slowest or float(right.median()) < TWICE * float(left.median()):  # type: ignore[arg-type]
        return ""
    return f"the quickest step ({quickest:.3g} s) takes longer than the baseline's slowest ({slowest:.3g} s)"


def _why_not_same(levels: SideLevels, arms: Arms) -> str:
    """Return why arms with equal levels are not the same: the mean step, or the share of slow steps; else ""."""
    means = [[run.mean for run in side] for side in levels]  # with stalls and time between steps
    left, right = (sum(side) / len(side) for side in means)
    slower = int(right > left)
    longer = min(means[slower]) > MAX_LONGER * max(means[1 - slower])
    if longer or max(left, right) > MAX_LONGER_MEAN * min(left, right):
        part = _grown_part(arms, slower)
        return f"the mean step is {100 * (right / left - 1):+.3g} % ({left:.4g} s became {right:.4g} s){part}"
    slow = [float(np.mean([run.slow for run in side])) for side in levels]
    if abs(slow[1] - slow[0]) <= MAX_SLOW:
        return ""
    share = f"{slow[0]:.0%} of the baseline's steps and {slow[1]:.0%} of the candidate's"
    return f"{share} take more than {CLOSE:g} × the usual step"


def say_per_token(row: MetricDiff) -> MetricDiff:
    """Return a row of times of arms whose steps are one function of one batch, split over other devices or parts."""
    return row.replace(reason=f"per token, as both arms' steps take the same batch: {row.reason}")


def find_device_kind(arms: Arms) -> DeviceKind:
    """Return the kind of device of the baseline's first run: from its log, else from its plan."""
    run = arms[0].first
    planned = run.plan.environment.get("JAX_PLATFORMS") if run.plan is not None else None
    logged = run.reading.environment
    return device_kind_of(logged.device_kind, logged.backend or planned)


def _cost(arms: Arms, rules: VerdictRules) -> Cost | None:
    """Return the cost of one more run of each arm; None if a log does not show how long its run took."""
    left, right = (seconds_between(arm.reading.started, arm.reading.ended) for arm in arms)
    if left is None or right is None:
        return None
    return Cost(seconds=left + right, chips=rules.chips, price=rules.price)


def _level_cell(arm: ArmRuns, levels: list[StepLevels], metric: Metric) -> Measured:
    if not levels:
        return Measured(text="" if arm.dead else TOO_FEW)
    shown = [run.middle if metric.title == metric.middle else run.quick for run in levels]
    # the geometric mean over the runs, because effects are differences of logarithms
    level = float(np.exp(np.mean([log(run.seconds) for run in shown])))
    # the level's own error is not shown: the interval of the difference includes it
    return Measured(value=level, text=f"{level:.{metric.decimals}f}", source=place_of_row(arm.reading.steps, 1))


def _grown_part(arms: Arms, slower: int) -> str:
    """Return the part of the time account that grew most per step in the slower arm, in words; empty if unknown."""
    sides = [[one.account for one in arm.facts if one.account and is_steady(one.account)] for arm in arms]
    if not all(sides):
        return ""
    parts = [_parts_per_step(side) for side in sides]
    grown = {name: parts[slower][name] - parts[1 - slower].get(name, 0.0) for name in parts[slower]}
    name = max(grown, key=lambda part: grown[part], default="")
    if not name or grown[name] <= 0:
        return ""
    words = f"compute in steps of more than {CLOSE:g} × the usual one" if name == COMPUTE else f'"{name}"'
    return f"; the part that grew most is {words}: {grown[name]:.3g} s per step"


def _parts_per_step(accounts: list[TimeAccount]) -> dict[str, float]:
    """Return the mean seconds per step of each part between the first step and the last, without compilation."""
    seconds: dict[str, float] = {}
    for account in accounts:
        steps = max(part.steps for part in account.parts if part.part == COMPUTE)
        for part in account.parts:
            if part.part not in (*START_AND_END, "compile"):
                seconds[part.part] = seconds.get(part.part, 0.0) + part.seconds / steps / len(accounts)
    return seconds


def name_host(decision: Decision, arms: Arms, *, proved: bool = True, excuse: str = "") -> str:
    """Return a sentence: the host loop, and which of its parts, explain a time difference of equal programs.

    Empty unless the decision is "regressed" or "improved". proved: the programs are one; else they take equal time.
    excuse: what makes the host loops equal, too, so that the cause lies outside of both arms; else empty.
    """
    if decision.verdict not in ("regressed", "improved"):
        return ""
    parts = _explain_difference(arms)
    shown = f" ({parts})" if parts else ""
    word = "slower" if decision.verdict == "regressed" else "quicker"
    if excuse:
        return f"{excuse}; {OUTSIDE} is {word}{shown}"
    programs = "same program" if proved else "the programs take equal time"
    return f"{programs}; the host loop is {word}{shown}"


def _explain_difference(arms: Arms) -> str:
    """Return the parts of a step with at least NAMED_SHARE of the time difference, in words.

    Empty if the parts are unknown, or if no part has this share.
    """
    sides = [_host_parts(arm) for arm in arms]
    if not all(sides):
        return ""
    grown = {name: sides[1][name] - sides[0][name] for name in sides[0]}
    whole = sum(grown.values())
    named = [(name, by) for name, by in grown.items() if by * whole > 0 and abs(by) >= NAMED_SHARE * abs(whole)]
    named.sort(key=lambda item: -abs(item[1]))
    return ", ".join(f"{name} {1000 * by:+.3g} ms per step" for name, by in named)


def _host_parts(arm: ArmRuns) -> dict[str, float]:
    """Return each part's mean seconds per step, without each run's first step; empty unless all runs recorded them."""
    tables = [run.metrics for run in arm.runs]
    if not all(table is not None and {STEP_COLUMN, *STEP_PARTS} <= set(table.columns) for table in tables):
        return {}
    steps = pl.concat(
        [table[1:].select(STEP_COLUMN, *STEP_PARTS).cast(pl.Float64) for table in tables if table is not None]
    )
    means = {column: float(steps[column].to_numpy().mean()) for column in steps.columns}
    parts = {words: means[column] for column, words in STEP_PARTS.items()}
    return parts | {OTHER_PART: means[STEP_COLUMN] - sum(parts.values())}
