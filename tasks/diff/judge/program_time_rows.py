"""Judges the step time of two programs that took turns, and what runs show beyond it: the host loop, input, saves."""

from configs.findings import Effects
from configs.verdict_rules import Tolerance, VerdictRules
from tasks.diff.examine.arms import Arms
from tasks.diff.judge.decide import decide_exact, show_threshold
from tasks.diff.judge.metric_rows import NOT_JUDGED, make_row
from tasks.diff.phrases.amounts import show_duration
from tasks.metrics.program_metrics import GIB, MEMORY
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.records.compared_case import Decision, Finding, MetricDiff, Verdict
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.records.run_facts import Measured
from tasks.records.text import counted, show_estimate, show_interval

EVIDENCE = "programs in turns"
NO_PROGRAM = "a log contains no program"
# for rules that were stored before programs took turns
STATED = Tolerance(
    relative=0.015,
    why="two programs in turns are compared to a percent",
    least=0.005,
    least_why="two executables of one program differ by up to a percent",
)


def tolerance_of_program(rules: VerdictRules) -> Tolerance:
    """Return the tolerance of the program's step time, as a share of it."""
    return rules.tolerances.get(PROGRAM_TIME.tolerance, STATED)


def decide_program(times: ProgramTimes, tolerance: Tolerance) -> Decision:
    """Decide the step time of the program from the interval of `times`, which must have been measured."""
    assert times.wall is not None
    wall, allowed = times.wall, tolerance.relative or 0.0
    verdict: Verdict
    if (wall.low > 0 or wall.high < 0) and abs(wall.effect) >= (tolerance.least or 0.0):
        verdict, words = ("regressed", "slower") if wall.effect > 0 else ("improved", "quicker")
        reason = f"the program is {words}: {show_ratio(wall)}"
    elif -allowed < wall.low and wall.high < allowed:
        verdict, reason = "same", f"{show_ratio(wall)}, inside {show_threshold(tolerance)} ({tolerance.why})"
    else:
        verdict = "unknown"
        longer = f"--interleave {longer_limit(times)}"
        reason = f"{show_ratio(wall)} after {show_duration(times.limit_s)}: not certainly inside or beyond "
        reason += f"{show_threshold(tolerance)}; give it longer: {longer}"
    return Decision(
        verdict=verdict,
        reason=f"{reason}; {describe_turns(times)}",
        threshold=allowed * times.step_s[0],
        threshold_text=show_threshold(tolerance),
        effect=wall.effect,
        effect_low=wall.low,
        effect_high=wall.high,
        effect_text=show_ratio(wall),
        effect_short=show_estimate(wall.effect, wall.low, wall.high),
        evidence=EVIDENCE,
    )


def longer_limit(times: ProgramTimes) -> str:
    """Return the limit of longer turns, as the option --interleave takes it."""
    return f"{max(round(times.limit_s / 60), 1) * 5}m"


def describe_turns(times: ProgramTimes) -> str:
    """Return how the programs were measured, as text."""
    where = "in one process" if times.processes == 1 else "in two processes, by a token"
    how = f"{counted(times.rounds, 'round')} {where}, {times.draws} × new executables and buffers"
    alone = "; one program at a time, because both states do not fit into memory" if times.alone else ""
    cpu = f"; processor time {show_ratio(times.cpu)}" if times.cpu is not None else ""
    left, right = times.peak_bytes
    sizes = f"; memory of a device {left / GIB:.4g} and {right / GIB:.4g} GiB" if left and right else ""
    return f"{how}{alone}{cpu}{sizes}"


def show_ratio(ratio: TimeRatio) -> str:
    """Return a difference with its interval, as text."""
    return show_interval(ratio.effect, ratio.low, ratio.high)


def program_time_row(arms: Arms, times: ProgramTimes | None, rules: VerdictRules) -> MetricDiff | None:
    """Return the row of the program's step time; None if the programs were not measured."""
    if times is None or times.wall is None:
        return None
    left = times.step_s[0]
    right = left * (1 + times.wall.effect)
    cells = [Measured(value=one, text=f"{one:.{PROGRAM_TIME.decimals}f}") for one in (left, right)]
    return make_row(PROGRAM_TIME, (cells[0], cells[1]), arms, decide_program(times, tolerance_of_program(rules)))


def find_disagreement(times: ProgramTimes | None, effects: Effects) -> list[Finding]:
    """Return a finding if another measurement of the same programs contradicts `times`; else an empty list."""
    effect = effects.get("measurements-disagree", "ignore")
    if times is None or not times.contradicted or effect == "ignore":
        return []
    return [Finding(kind="measurements-disagree", effect=effect, message=f"step times disagree: {times.contradicted}")]


def turned_memory_row(arms: Arms, times: ProgramTimes, rules: VerdictRules) -> MetricDiff | None:
    """Return the row of both programs' memory on one device, by the compiler of the turns; None if it is unknown."""
    left, right = times.peak_bytes
    if left is None or right is None:
        return None
    sizes, tolerance = (left / GIB, right / GIB), rules.tolerances[MEMORY.tolerance]
    decision = decide_exact(*sizes, better=MEMORY.better, tolerance=tolerance, precision=MEMORY.precision)
    cells = [Measured(value=one, text=f"{one:.{MEMORY.decimals}f}") for one in sizes]
    return make_row(MEMORY, (cells[0], cells[1]), arms, decision)


def leave_to_runs(row: MetricDiff, runs: MetricDiff) -> MetricDiff:
    """Return the program's row; it is not judged if its turns were too short to decide, and the runs decide."""
    if row.verdict != "unknown" or runs.verdict not in ("same", "improved", "regressed"):
        return row
    return row.replace(verdict=NOT_JUDGED, reason=f"the runs decide; {row.reason}")


def say_program(row: MetricDiff) -> str:
    """Return the program's part in the difference between runs, as text."""
    word = {"same": "equal", "regressed": "slower", "improved": "quicker"}[row.verdict]
    return f"program {word} {row.effect_text}"


def judge_beyond_program(row: MetricDiff, program: MetricDiff | None, problem: str = "") -> MetricDiff:
    """Return a row of the runs' time, judged only for what the program's time does not explain.

    program: the row of the program's step time; None or unknown: the runs alone decide. problem: why the programs were
    not measured.
    """
    if program is None or program.verdict in ("unknown", NOT_JUDGED):
        if problem and (row.verdict == "unknown" if problem == NO_PROGRAM else row.verdict != NOT_JUDGED):
            return row.replace(reason=f"{row.reason}; the programs did not take turns: {problem}")
        return row
    said = say_program(program)
    if row.verdict in ("regressed", "improved"):
        if _overlaps(row, program) and row.verdict == program.verdict:
            return _leave_to_program(row, f"{said}, which explains the runs' {row.effect_text}")
        rest = "" if program.verdict == "same" else "; the rest is the host loop, or lies between steps"
        return row.replace(reason=f"{said}{rest}; {row.reason}")
    if row.verdict != "unknown" or is_inside(row):  # inside its tolerance: mean step or slow steps prevent *same*
        return row
    shown = f"runs show {row.effect_text}, too wide for the host's part" if row.effect_text else row.reason
    return _leave_to_program(row, f"{said}; {shown}")


def _overlaps(row: MetricDiff, program: MetricDiff) -> bool:
    ends = [(one.effect_low, one.effect_high) for one in (row, program)]
    (low, high), (from_program, to_program) = ends
    if low is None or high is None:  # wider than any shown interval
        return True
    assert from_program is not None
    assert to_program is not None
    return low <= to_program and from_program <= high


def is_inside(row: MetricDiff) -> bool:
    """Return whether the interval of an undecided row lies inside its tolerance."""
    if row.effect_low is None or row.effect_high is None or not row.threshold or not row.baseline:
        return False
    share = row.threshold / row.baseline
    return -share <= row.effect_low and row.effect_high <= share


def _leave_to_program(row: MetricDiff, reason: str) -> MetricDiff:
    return row.replace(verdict=NOT_JUDGED, reason=reason, runs_wanted=None, cost_text="", evidence="")
