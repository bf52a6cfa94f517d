"""Decides the rows of two arms (compared versions) of which only the training steps were recorded."""

from collections.abc import Iterator, Sequence

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.data_differences import find_data
from tasks.diff.examine.examination import Decided, Examination, ExaminedSteps
from tasks.diff.examine.floors import has_same_program
from tasks.diff.examine.new_functions import find_jits, find_own_jits
from tasks.diff.judge.change_row import change_row, later_row
from tasks.diff.judge.data_rows import data_row, tell_data
from tasks.diff.judge.death_row import death_row
from tasks.diff.judge.decide_by_function import function_row, rounding_row
from tasks.diff.judge.host_rows import judge_by_host
from tasks.diff.judge.loop_rows import compiles_row, host_row, loop_row
from tasks.diff.judge.metric_rows import make_row, not_judged
from tasks.diff.judge.program_time_rows import program_time_row, turned_memory_row
from tasks.diff.phrases.amounts import ONE_PROGRAM
from tasks.metrics.metric import Metric
from tasks.metrics.program_metrics import COMPILED_PROGRAMS, FRONT_END
from tasks.metrics.result_metrics import DATA, FIRST_CALL, FUNCTION
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.records.compared_case import Decision, MetricDiff, Verdict
from tasks.records.loop_times import LoopTimes
from tasks.records.measurement import Measurements
from tasks.records.observation import LoopRecord, Observation
from tasks.records.run_facts import Measured
from tasks.records.text import counted

DRAWN_ANEW = "so do those of two runs of the baseline, which draws them without a seed"
SHOWN = 3  # names in a sentence
# of the time before the step is compiled
FRONT_END_SHARE, ONE_SAMPLE_SHARE = 0.25, 0.5
FRONT_END_LEAST_S = 0.1


def decide_steps(examined: Examination, evidence: Measurements) -> Decided:
    """Return the rows of two recorded steps."""
    assert examined.steps is not None
    rows = tuple(row for row in _list_rows(examined, examined.steps, evidence) if row is not None)
    return Decided(rows=rows, coverage=examined.coverage)


def _list_rows(examined: Examination, steps: ExaminedSteps, evidence: Measurements) -> Iterator[MetricDiff | None]:
    arms, rules, asked = examined.arms, examined.subject.rules, examined.shown.asked
    function, turns = evidence.function, evidence.turns
    if any(arm.dead for arm in arms):
        yield death_row(arms, survived="its step was recorded")
    if "time" in asked and examined.proved:
        yield _one_program_row(PROGRAM_TIME, arms)
    elif turns is not None:
        yield program_time_row(arms, turns, rules) or _missing_row(arms, turns.problem)
        yield turned_memory_row(arms, turns, rules)
    if (loops := evidence.loops) is not None:
        row = loop_row(arms, loops, rules)
        yield judge_by_host(row, evidence.host) if evidence.host is not None and examined.proved else row
        yield host_row(arms, loops, turns, one_program=examined.proved)
    if "time" in asked:
        yield _compiles_row(arms, steps, loops)
        yield _front_end_row(arms, steps)
    if "function" in asked and function is None and has_same_program(list(examined.floors)):
        yield _one_program_row(FUNCTION, arms)
    if function is not None:
        yield function_row(arms, function)
        yield rounding_row(arms, function)
    yield _first_call_row(arms, steps)
    yield change_row(arms, examined.coverage)
    yield later_row(arms, examined.coverage)
    data = find_data(arms, evidence.data)
    if data is not None and data.kind != "equal" and any(role == "data" for role, _ in steps.drawn_anew):
        cells = Measured(text=counted(data.steps, "step"))
        yield make_row(DATA, (cells, cells), arms, not_judged(f"{tell_data(data)}: {DRAWN_ANEW}"))
    else:
        yield data_row(arms, data, evidence.data, frozenset(rules.declared))


def _one_program_row(metric: Metric, arms: Arms) -> MetricDiff:
    cells = Measured(text="one program")
    decision = Decision(verdict="same", reason="both arms have one program", evidence=ONE_PROGRAM)
    return make_row(metric, (cells, cells), arms, decision)


def _compiles_row(arms: Arms, steps: ExaminedSteps, loops: LoopTimes | None) -> MetricDiff | None:
    """Return the row of an arm whose loop compiles its step again and again, which no time of the program shows."""
    lines = find_own_jits(steps.observations)
    if (lines[0] is None) != (lines[1] is None):
        line = lines[0] or lines[1]
        assert line is not None
        found = zip(map(find_jits, steps.observations), lines, strict=True)
        counts = [1 if its is None else jits[its] for jits, its in found]
        reason = f"{line.place} jits a new function object in each step, and each compiles"
    else:
        records = [one.loop or LoopRecord(calls=0) for one in steps.observations]
        calls = min(record.calls for record in records)
        again = [[one for one in record.retyped if one[0] < calls] for record in records]
        counts = [1 + len(its) for its in again]
        longer = int(counts[1] > counts[0])
        reason = _tell_retyped(steps.observations[longer], again[longer])
    if counts[0] == counts[1]:  # in the recorded calls; in turns, the loops run on
        return compiles_row(arms, loops) if loops is not None else None
    left, right = (Measured(value=float(count), text=str(count)) for count in counts)
    decision = Decision(verdict="regressed" if counts[1] > counts[0] else "improved", reason=reason)
    return make_row(COMPILED_PROGRAMS, (left, right), arms, decision)


def _tell_retyped(observation: Observation, again: Sequence[tuple[int, int, str, str]]) -> str:
    """Return why an arm compiles its step more than once: the argument whose type differs from that of the first."""
    call, place, left, right = next(iter(again), (0, -1, "", ""))
    named = observation.arguments[place].meaning if 0 <= place < len(observation.arguments) else ""
    why = f", whose {named} is {right}, no longer {left}" if named else ""
    return f"{observation.arm} compiles its step again in call {call}{why}"


def _front_end_row(arms: Arms, steps: ExaminedSteps) -> MetricDiff | None:
    """Return the row of the time before the step is compiled, which a change of Python moves in a program of any time.

    Samples of one process scatter by a tenth on a busy machine, and few seconds more before the first step are nothing.
    """
    samples = [one.front_end for one in steps.observations]
    if not all(samples):
        return None
    left, right = map(min, samples)
    change, beyond = right / left - 1, right - left
    allowed = FRONT_END_SHARE if min(map(len, samples)) > 1 else ONE_SAMPLE_SHARE
    verdict: Verdict = "same"
    if max(left, right) > (1 + allowed) * min(left, right) and abs(beyond) > FRONT_END_LEAST_S:
        verdict = "regressed" if beyond > 0 else "improved"
    reason = f"{change:+.0%}, the quickest of {min(map(len, samples))}; "
    reason += f"more than {allowed:.0%} and {FRONT_END_LEAST_S} s count"
    cells = [Measured(value=value, text=f"{value:.2f}") for value in (left, right)]
    return make_row(FRONT_END, (cells[0], cells[1]), arms, Decision(verdict=verdict, reason=reason))


def _missing_row(arms: Arms, problem: str) -> MetricDiff:
    cells = Measured(text="not measured")
    return make_row(PROGRAM_TIME, (cells, cells), arms, Decision(verdict="unknown", reason=problem))


def _first_call_row(arms: Arms, steps: ExaminedSteps) -> MetricDiff | None:
    """Return the row of the arrays that both first steps are given; None if they start apart, or have none in common.

    Neither the programs nor float64, which gives both steps the baseline's arrays, show another initializer or other
    data.
    """
    left, right = ({(one.role, one.meaning): one.digest for one in its.arguments} for its in steps.observations)
    common = [key for key, digest in left.items() if digest and right.get(key)]
    if not common or steps.start_apart:
        return None
    differ = [key for key in common if left[key] != right[key]]
    own = {meaning for _, meaning in steps.drawn_anew}
    others = [key for key in differ if key[1] not in own]
    kinds = [{(one.role, one.meaning): one.kind for one in its.arguments} for its in steps.observations]
    shown = [
        key[1] if kinds[0][key] == kinds[1][key] else f"{key[1]} ({kinds[0][key]} → {kinds[1][key]})"
        for key in (others or differ)[:SHOWN]
    ]
    named = " and ".join(shown) + (" and others" if len(others or differ) > SHOWN else "")
    count = counted(len(common), "array")
    equal = f"the {count} that the first step is given are equal in every bit"
    reason = f"the first step is given other {named}, {len(differ)} of {count}"
    cells = [Measured(text=counted(len(its.arguments), "array")) for its in steps.observations]
    decision = Decision(verdict="changed" if differ else "same", reason=reason if differ else equal)
    if differ and not others:
        decision = not_judged(f"{reason}: {DRAWN_ANEW}")
    return make_row(FIRST_CALL, (cells[0], cells[1]), arms, decision)
