"""Judges the time of a step by both loops as they run, which took turns; shows the host's part, and loops' compiles."""

from math import hypot, inf

from configs.verdict_rules import DeviceKind, Tolerance, VerdictRules
from tasks.diff.examine.arms import Arms
from tasks.diff.judge.decide import show_threshold, threshold_of
from tasks.diff.judge.host_rows import LOOPS, show_span
from tasks.diff.judge.metric_rows import make_row, not_judged
from tasks.diff.judge.program_time_rows import show_ratio
from tasks.diff.judge.time_rows import find_device_kind
from tasks.metrics.program_metrics import COMPILED_PROGRAMS
from tasks.metrics.time_metrics import CPU_TIME, HOST_TIME, STEP_TIME
from tasks.records.compared_case import Decision, MetricDiff, Verdict
from tasks.records.host_times import Span
from tasks.records.loop_times import LoopCompile, LoopTimes
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.records.run_facts import Measured
from tasks.records.text import counted, show_estimate

TITLE = "Step time"  # of the loop
SHOWN = 2  # compiled functions in a sentence


def tolerance_of_loop(rules: VerdictRules, kind: DeviceKind) -> Tolerance:
    """Return the tolerance of the loop's step time: that of runs."""
    return rules.tolerance_of_time(STEP_TIME.tolerance, kind)


def decide_loop(loops: LoopTimes, ratio: TimeRatio, step_s: float, tolerance: Tolerance) -> Decision:
    """Decide a time per step from its interval. step_s: of the baseline."""
    allowed, shown = threshold_of(tolerance, step_s) / step_s, show_ratio(ratio)
    verdict: Verdict
    if (ratio.low > 0 or ratio.high < 0) and abs(ratio.effect) >= (tolerance.least or 0.0):
        verdict, word = ("regressed", "slower") if ratio.effect > 0 else ("improved", "quicker")
        reason = f"the loop is {word}: {shown}"
    elif -allowed < ratio.low and ratio.high < allowed:
        verdict, reason = "same", f"{shown}, inside {show_threshold(tolerance)} ({tolerance.why})"
    else:
        verdict, reason = "unknown", f"{shown}: not certainly inside or beyond {show_threshold(tolerance)}"
    return Decision(
        verdict=verdict,
        reason=f"{reason}; {describe_loops(loops)}",
        threshold=allowed * step_s,
        threshold_text=show_threshold(tolerance),
        effect=ratio.effect,
        effect_low=ratio.low,
        effect_high=ratio.high,
        effect_text=shown,
        effect_short=show_estimate(ratio.effect, ratio.low, ratio.high),
        evidence=LOOPS,
    )


def describe_loops(loops: LoopTimes) -> str:
    """Return how the loops were measured, as text."""
    cpu = f"; processor time {show_ratio(loops.cpu)}" if loops.cpu is not None else ""
    pairs = ", of two pairs of processes" if loops.processes > 1 else ""
    steps, rounds = counted(loops.steps, "step"), counted(loops.rounds, "round")
    return f"both trainers in turns, {steps} of each in {rounds}{pairs}{cpu}"


def loop_row(arms: Arms, loops: LoopTimes, rules: VerdictRules) -> MetricDiff:
    """Return the row of the step time of two arms without runs."""
    metric = STEP_TIME.replace(title=TITLE, rule="both trainers as they run, in turns: the median step")
    if loops.wall is None:
        cells = Measured(text="not measured")
        return make_row(metric, (cells, cells), arms, not_judged(loops.problem))
    tolerance = tolerance_of_loop(rules, find_device_kind(arms))
    both = _cells(loops.step_s[0], loops.wall, metric.decimals)
    return make_row(metric, both, arms, decide_loop(loops, loops.wall, loops.step_s[0], tolerance))


def _cells(step_s: float, ratio: TimeRatio, decimals: int | None) -> tuple[Measured, Measured]:
    left, right = (Measured(value=one, text=f"{one:.{decimals}f}") for one in (step_s, step_s * (1 + ratio.effect)))
    return left, right


def host_row(arms: Arms, loops: LoopTimes, turns: ProgramTimes | None, *, one_program: bool) -> MetricDiff | None:
    """Return the row of the loop's time less the program's; None if one of them is unknown."""
    if loops.wall is None or not (one_program or (turns is not None and turns.wall is not None)):
        return None
    span, how = _span(loops.wall, loops.step_s[0]), "one program: the loops' whole difference"
    left = right = Measured(text="—")
    if not one_program and turns is not None and turns.wall is not None:
        whole, part = span, _span(turns.wall, turns.step_s[0])
        effect = whole.effect - part.effect
        below = hypot(whole.effect - whole.low, part.high - part.effect)
        above = hypot(whole.high - whole.effect, part.effect - part.low)
        span, how = Span(effect=effect, low=effect - below, high=effect + above), "the loop's less the program's"
        first = max(loops.step_s[0] - turns.step_s[0], 0.0)
        left, right = (Measured(value=one, text=f"{one:.4f}") for one in (first, max(first + effect, 0.0)))
    return make_row(HOST_TIME, (left, right), arms, not_judged(f"{show_span(span)} per step, {how}"))


def _span(ratio: TimeRatio, step_s: float) -> Span:
    return Span(effect=ratio.effect * step_s, low=ratio.low * step_s, high=ratio.high * step_s)


def judge_by_loops(row: MetricDiff, loops: LoopTimes | None, arms: Arms, rules: VerdictRules) -> MetricDiff:
    """Return a row of the runs' time; if the runs left it open, that of the loops in turns, unless these know less."""
    if loops is None or row.verdict != "unknown":
        return row
    if loops.wall is None or loops.cpu is None:
        return row.replace(reason=f"{row.reason}; {loops.problem}")
    is_cpu = row.metric == CPU_TIME.name
    ratio, step_s = (loops.cpu, loops.cpu_s[0]) if is_cpu else (loops.wall, loops.step_s[0])
    decision = decide_loop(loops, ratio, step_s, tolerance_of_loop(rules, find_device_kind(arms)))
    width = inf if row.effect_low is None or row.effect_high is None else row.effect_high - row.effect_low
    if decision.verdict == "unknown" and ratio.high - ratio.low >= width:
        return row.replace(reason=f"{row.reason}; loops in turns: {decision.reason}")
    shown = f"; the runs show {row.effect_text}" if row.effect_text else ""
    metric = CPU_TIME if is_cpu else STEP_TIME.replace(title=TITLE)
    both = _cells(step_s, ratio, metric.decimals)
    return make_row(metric, both, arms, decision.replace(reason=f"{decision.reason}{shown}", level=row.level))


def compiles_row(arms: Arms, loops: LoopTimes) -> MetricDiff | None:
    """Return the row of compiles after the loops' warm-up; None if neither compiles."""
    counts = [sum(one.count for one in side) for side in loops.compiles]
    if not any(counts):
        return None
    reason = f"{counted(counts[0], 'compile')} and {counted(counts[1], 'compile')} in {counted(loops.steps, 'step')}"
    verdict: Verdict = "same"
    if counts[0] != counts[1]:
        longer = int(counts[1] > counts[0])
        verdict = "regressed" if longer else "improved"
        reason = "; ".join([*map(_tell_compile, loops.compiles[longer][:SHOWN]), reason])
    left, right = (Measured(value=float(count), text=str(count)) for count in counts)
    return make_row(COMPILED_PROGRAMS, (left, right), arms, Decision(verdict=verdict, reason=reason))


def _tell_compile(one: LoopCompile) -> str:
    why = f", now with {one.why}" if one.why else ""
    return f"{one.place} compiles `{one.function}` again{why}"
