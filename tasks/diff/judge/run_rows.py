"""Decides the rows of two arms (compared versions) whose runs were trained or whose logs were given."""

from typing import NamedTuple

from configs.verdict_rules import VerdictRules
from tasks.diff.examine.arms import Arms
from tasks.diff.examine.circumstances import Circumstances
from tasks.diff.examine.cover_change import add_function, doubt_programs
from tasks.diff.examine.data_differences import DataDifference, find_data
from tasks.diff.examine.examination import Decided, Examination, ExaminedRuns
from tasks.diff.examine.parity import MIN_STEPS
from tasks.diff.examine.same_code import draws_differ
from tasks.diff.judge.change_row import change_row, later_row
from tasks.diff.judge.data_rows import data_row, decide_by_data
from tasks.diff.judge.death_row import death_row
from tasks.diff.judge.decide_by_function import decide_loss, excuse_rounding, function_row, rounding_row
from tasks.diff.judge.decide_curves import CurveContext, decide_value, decide_values
from tasks.diff.judge.decide_noisy import NO_USE
from tasks.diff.judge.loop_rows import host_row, judge_by_loops
from tasks.diff.judge.memory_rows import memory_rows
from tasks.diff.judge.metric_rows import is_unfilled, table_rows
from tasks.diff.judge.parity_rows import evaluation_row, loss_row, values_row
from tasks.diff.judge.program_time_rows import NO_PROGRAM, judge_beyond_program, leave_to_runs, program_time_row
from tasks.diff.judge.regrade import OF_WORK
from tasks.diff.judge.restored_row import restored_row
from tasks.diff.judge.rounding_band import rounding_band
from tasks.diff.judge.state_rows import checkpoint_row, final_state_row
from tasks.diff.judge.step_modes import describe_modes
from tasks.diff.judge.time_rows import cpu_time_row, name_host, say_per_token, step_time_row
from tasks.metrics.merged_steps import cpu_seconds
from tasks.metrics.program_metrics import FRONT_END
from tasks.metrics.result_metrics import (
    CHANGE,
    CHECKPOINTS,
    DATA,
    END,
    EVALUATION,
    FINAL_STATE,
    FIRST_CALL,
    FUNCTION,
    LATER_STEPS,
    LOSS,
    RESTORED,
    ROUNDING,
    VALUES,
)
from tasks.metrics.table import BY_NAME
from tasks.metrics.time_metrics import CPU_TIME, HOST_TIME, PROGRAM_TIME, STEP_TIME
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.function import FunctionComparison
from tasks.records.measurement import NOTHING, Measurements
from tasks.records.program_times import ProgramTimes


class Times(NamedTuple):
    """The rows of the time of a step."""

    program: MetricDiff | None
    step: MetricDiff
    part: MetricDiff | None  # of the step, for the host
    cpu: MetricDiff | None
    decision: Decision  # on the step time by the runs, which other rows share
    host: str  # explains a time difference between arms that run one program; empty without one


class Values(NamedTuple):
    """The decisions on values of every step."""

    loss: Decision
    evaluations: Decision | None
    others: Decision | None
    data: DataDifference | None


def decide_runs(examined: Examination, evidence: Measurements = NOTHING) -> Decided:
    """Return the rows of two arms with runs; both host loops, if timed, decide a time afterwards."""
    assert examined.runs is not None
    arms, rules, runs, function = examined.arms, examined.subject.rules, examined.runs, evidence.function
    parity, *others = runs.parities
    circumstances = runs.circumstances
    if any(finding.effect == "blocks" for finding in examined.findings):
        circumstances = circumstances.replace(instead=NO_USE)
    times = _decide_times(examined, evidence, circumstances)
    values = _decide_values(examined, runs, evidence, circumstances)
    coverage = examined.coverage
    if function is not None and function.answer == "same":
        coverage = add_function(coverage, function)
    coverage = doubt_programs(coverage, examined.floors, function)
    built = {
        END.name: death_row(arms) if any(arm.dead for arm in arms) else None,
        PROGRAM_TIME.name: times.program,
        STEP_TIME.name: times.step,
        CPU_TIME.name: times.cpu,
        HOST_TIME.name: times.part,
        LOSS.name: loss_row(arms, parity, values.loss),
        FUNCTION.name: _other_function(arms, function, values.loss),
        CHANGE.name: change_row(arms, coverage),
        LATER_STEPS.name: later_row(arms, coverage),
        FIRST_CALL.name: None,  # the losses of the runs tell
        FRONT_END.name: None,  # a question of --only time
        EVALUATION.name: evaluation_row(arms, runs.evaluations, values.evaluations),
        VALUES.name: values_row(arms, others, values.others),
        DATA.name: data_row(arms, values.data, evidence.data, frozenset(rules.declared)),
        ROUNDING.name: rounding_row(arms, function),
        FINAL_STATE.name: final_state_row(arms, parity),
        CHECKPOINTS.name: checkpoint_row(arms, runs.checkpoints, list(examined.floors), loss=parity),
        RESTORED.name: restored_row(arms),
        **memory_rows(arms, rules.tolerances),
    }
    decisions = {STEP_TIME.name: times.decision, LOSS.name: values.loss}
    rows = list(table_rows(arms, rules.tolerances, built, decisions))
    return Decided(
        rows=tuple(allow(row, rules) for row in rows if not is_unfilled(row)),
        absent=tuple(row.title for row in rows if is_unfilled(row)),
        coverage=coverage,
        host=times.host,
    )


def _decide_times(examined: Examination, evidence: Measurements, circumstances: Circumstances) -> Times:
    """Return the rows of the times: of both programs in turns, and of the runs for what these do not explain."""
    arms, rules, proved, turns = examined.arms, examined.subject.rules, examined.proved, evidence.turns
    excuse = circumstances.excuse
    measured = [cpu_seconds(run) is not None for arm in arms for run in arm.runs]
    timed = turns is not None and not turns.problem
    shared = circumstances.shared_by((1 + timed) * (1 + all(measured)))
    step, decision = step_time_row(arms, rules, shared)
    cpu = cpu_time_row(arms, rules, shared)
    program = program_time_row(arms, turns, rules)
    equal_times = program is not None and program.verdict == "same"
    loops = evidence.loops
    step, cpu = judge_by_loops(step, loops, arms, rules), cpu and judge_by_loops(cpu, loops, arms, rules)
    host = name_host(decision, arms, proved=proved, excuse=excuse) if proved or equal_times else ""
    modes = describe_modes(arms) if step.verdict in ("regressed", "improved") else ""
    host = "; ".join(filter(None, (host, modes)))
    if host:
        step = step.replace(reason=f"{host}: {step.reason}")
    function = evidence.function
    if function is not None and function.answer == "same" and any(one.kind in OF_WORK for one in examined.findings):
        step, cpu = say_per_token(step), cpu and say_per_token(cpu)
    if not excuse:
        program = program and leave_to_runs(program, step)
        step = judge_beyond_program(step, program, _name_obstacle(arms, turns))
        cpu = cpu and judge_beyond_program(cpu, program)
    part = host_row(arms, loops, turns, one_program=proved) if loops is not None else None
    return Times(program, step, part, cpu, decision, host)


def _decide_values(
    examined: Examination, runs: ExaminedRuns, evidence: Measurements, circumstances: Circumstances
) -> Values:
    """Return the decisions on the loss, the evaluations and the other values, by their curves, float64 and the data."""
    arms, rules, proved, function = examined.arms, examined.subject.rules, examined.proved, evidence.function
    parity, *others = runs.parities
    context = CurveContext(
        rules=rules, proved=proved, other_draws=draws_differ(arms), instead=circumstances.instead,
        among=len(runs.parities) + len(runs.evaluations), rounding=rounding_band(arms, rules),
    )  # fmt: skip
    data = find_data(arms, evidence.data)
    loss = decide_loss(parity, decide_value(parity, context), function, evidence.data)
    loss = decide_by_data(loss, data, evidence.data)
    # arms with equal losses at all steps have equal weights, so their evaluations must be equal too
    equal = proved or (parity.parity.steps >= MIN_STEPS and parity.parity.first is None and not parity.varies)
    found = decide_values(runs.evaluations, context.replace(proved=equal)), decide_values(others, context)
    # of equal weights an evaluation has nothing to round differently
    told = found[0] if equal else excuse_rounding(found[0], loss, function), excuse_rounding(found[1], loss, function)
    evaluations, values = (one and decide_by_data(one, data, evidence.data) for one in told)
    return Values(loss, evaluations, values, data)


def _other_function(arms: Arms, function: FunctionComparison | None, loss: Decision) -> MetricDiff | None:
    """Return the row of another function that the row of the losses does not tell, as where no loss is logged."""
    told = loss.verdict in ("changed", "regressed")
    return None if function is None or function.answer != "another" or told else function_row(arms, function)


def _name_obstacle(arms: Arms, turns: ProgramTimes | None) -> str:
    """Return why the programs did not take turns, or ""."""
    if turns is not None:
        return turns.problem
    return "" if any(run.plan for arm in arms for run in arm.runs) else NO_PROGRAM


def allow(row: MetricDiff, rules: VerdictRules) -> MetricDiff:
    """Return the row. If it is *changed* and the comparison's file allows that, the row gets the reason in the file."""
    why = rules.allowed.get(BY_NAME[row.metric].tolerance, "")
    return row.replace(allowed=why) if why and row.verdict == "changed" else row
