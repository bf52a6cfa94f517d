"""Turns the run records of two arms (sides of a comparison) into a `ComparisonRecord`, with verdict and headline."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from configs.findings import Effects
from configs.verdict_rules import VerdictRules
from tasks.diff.arms import ArmRuns, Arms, curves_of, know_waits, numbered, summarise, times_of
from tasks.diff.comparability import find_findings
from tasks.diff.cover_change import add_function, change_row, doubt_programs
from tasks.diff.data_rows import data_row, decide_by_data, find_data
from tasks.diff.decide import ONE_RUN
from tasks.diff.decide_by_function import decide_loss, excuse_rounding, rounding_row
from tasks.diff.decide_curves import CurveContext, decide_value, decide_values
from tasks.diff.decide_noisy import NO_USE
from tasks.diff.floors import excuse_of, floors_of, run_one_executable
from tasks.diff.host_rows import judge_by_host
from tasks.diff.memory_rows import memory_rows
from tasks.diff.metric_rows import NOT_JUDGED, is_unfilled, table_rows
from tasks.diff.next_step import PER_STEP, find_time_row
from tasks.diff.parity import MIN_STEPS, compare_metric, number_alike, shared_metrics
from tasks.diff.parity_rows import compare_evaluations, evaluation_row, loss_row, values_row
from tasks.diff.program_time_rows import (
    NO_PROGRAM,
    find_disagreement,
    judge_beyond_program,
    leave_to_runs,
    program_time_row,
)
from tasks.diff.rounding_band import rounding_band
from tasks.diff.run_events import death_row
from tasks.diff.same_code import draws_differ
from tasks.diff.state_rows import checkpoint_row, final_state_row
from tasks.diff.step_modes import describe_modes
from tasks.diff.time_rows import Circumstances, cpu_time_row, name_host, say_per_token, step_time_row
from tasks.metrics.merged_steps import cpu_seconds
from tasks.metrics.result_metrics import (
    CHANGE,
    CHECKPOINTS,
    DATA,
    END,
    EVALUATION,
    FINAL_STATE,
    FIRST_CALL,
    FUNCTION,
    LOSS,
    ROUNDING,
    VALUES,
)
from tasks.metrics.table import BY_NAME, METRICS
from tasks.metrics.time_metrics import CPU_TIME, PROGRAM_TIME, STEP_TIME
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import ComparisonRecord, Finding, Floor, MetricDiff, Verdict
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.data import DataComparison
from tasks.records.explanation import ProgramExplanation
from tasks.records.function import FunctionComparison
from tasks.records.host_times import HostTimes
from tasks.records.plan import RunPlan
from tasks.records.program_times import ProgramTimes
from tasks.records.run import RunRecord
from tasks.records.text import MEGA, show_number
from tasks.verify.saves import lives_of

WORDS: tuple[tuple[Verdict, str], ...] = (
    ("regressed", "{} regressed"),
    ("changed", "{} changed"),
    ("unknown", "not enough evidence for {}"),
    ("improved", "{} improved, nothing regressed"),
)
# rows that a headline names before times and memory
COMPUTED = frozenset(metric.name for metric in METRICS if metric.result)
# findings on the shape of the work, which need not change what is computed
OF_WORK = frozenset({"mesh", "device-count", "flops", "tokens"})
# rows that share the verdict of another row; a headline names only that other row
SHARE_A_VERDICT = frozenset(metric.name for metric in METRICS if metric.verdict_of)


def diff(
    baseline: Sequence[RunRecord],
    candidate: Sequence[RunRecord],
    *,
    comparison: str,
    case: str,
    target: str,
    rules: VerdictRules,
    aa: bool = False,
    circumstances: Circumstances | None = None,
    checkpoints: CheckpointDifference | None = None,
    program: ProgramExplanation | None = None,
    turns: ProgramTimes | None = None,
    host: HostTimes | None = None,
    function: FunctionComparison | None = None,
    coverage: ChangeCoverage | None = None,
    data: DataComparison | None = None,
) -> ComparisonRecord:
    """Compare the runs of two arms by the given rules.

    `aa`: the arms should be equal; `circumstances`: further inputs for judging noise; `checkpoints`: the comparison of
    both arms' checkpoints of one step; `program`: the comparison of the recorded training steps; `turns`: their times;
    `host`: the times of both host loops without their program;
    `function`: whether they compute one function; `data`: the batches of both recorded steps; `coverage`: which lines
    of the change the runs executed.
    """
    left, right = (ArmRuns(name=runs[0].arm, label=runs[0].label, runs=tuple(runs)) for runs in (baseline, candidate))
    left, right = arms = number_alike((left, right))
    parity, *others = [compare_metric(arms, metric) for metric in shared_metrics(arms)]
    evaluations = compare_evaluations(arms)
    compared = (parity, *others, *evaluations)
    findings = find_findings(
        arms, declared=frozenset(rules.declared), effects=effects_of(rules, function), aa=aa, parities=compared
    )
    findings += find_disagreement(turns, rules.effects)
    floors = floors_of(arms, program, function)
    proved, excuse = run_one_executable(arms, floors), excuse_of(arms, floors)
    circumstances = (circumstances or Circumstances()).replace(excuse=excuse)
    if any(finding.effect == "blocks" for finding in findings):
        circumstances = circumstances.replace(instead=NO_USE)
    judged = CurveContext(
        rules=rules, proved=proved, other_draws=draws_differ(arms), instead=circumstances.instead, among=len(compared),
        rounding=rounding_band(arms, rules),
    )  # fmt: skip
    loss = decide_loss(parity, decide_value(parity, judged), function)
    batches = find_data(arms, data)
    loss = decide_by_data(loss, batches, data)
    # arms with equal losses at all steps have equal weights, so their evaluations must be equal too
    equal = proved or (parity.parity.steps >= MIN_STEPS and parity.parity.first is None and not parity.varies)
    measured = [cpu_seconds(run) is not None for arm in arms for run in arm.runs]
    timed = turns is not None and not turns.problem
    shared = circumstances.shared_by((1 + timed) * (1 + all(measured)))
    time_row, step_time = step_time_row(arms, rules, shared)
    program_row = program_time_row(arms, turns, rules)
    equal_times = program_row is not None and program_row.verdict == "same"
    host_words = name_host(step_time, arms, proved=proved, excuse=excuse) if proved or equal_times else ""
    modes = describe_modes(arms) if time_row.verdict in ("regressed", "improved") else ""
    host_words = "; ".join(filter(None, (host_words, modes)))
    if host_words:
        time_row = time_row.replace(reason=f"{host_words}: {time_row.reason}")
    cpu_row = cpu_time_row(arms, rules, shared)
    if function is not None and function.answer == "same" and any(finding.kind in OF_WORK for finding in findings):
        time_row, cpu_row = say_per_token(time_row), cpu_row and say_per_token(cpu_row)
    if not excuse:
        program_row = program_row and leave_to_runs(program_row, time_row)
        time_row = judge_beyond_program(time_row, program_row, _name_obstacle(arms, turns))
        cpu_row = cpu_row and judge_beyond_program(cpu_row, program_row)
    if proved and host is not None:
        time_row = judge_by_host(time_row, host)
        cpu_row = cpu_row and judge_by_host(cpu_row, host)
    evaluated = decide_values(evaluations, judged.replace(proved=equal))
    evaluated, values = (
        one and decide_by_data(one, batches, data)
        for one in (excuse_rounding(one, loss, function) for one in (evaluated, decide_values(others, judged)))
    )
    if function is not None and function.answer == "same":
        coverage = add_function(coverage, function)
    coverage = doubt_programs(coverage, floors, function)
    built = {
        END.name: death_row(arms) if any(arm.dead for arm in arms) else None,
        PROGRAM_TIME.name: program_row,
        STEP_TIME.name: time_row,
        CPU_TIME.name: cpu_row,
        LOSS.name: loss_row(arms, parity, loss),
        FUNCTION.name: None,  # the row of the losses has the answer
        CHANGE.name: change_row(arms, coverage),
        FIRST_CALL.name: None,  # the losses of the runs tell
        EVALUATION.name: evaluation_row(arms, evaluations, evaluated),
        VALUES.name: values_row(arms, others, values),
        DATA.name: data_row(arms, batches, data, frozenset(rules.declared)),
        ROUNDING.name: rounding_row(arms, function),
        FINAL_STATE.name: final_state_row(arms, parity),
        CHECKPOINTS.name: checkpoint_row(arms, checkpoints, floors, loss=parity),
        **memory_rows(arms, rules.tolerances),
    }
    decisions = {STEP_TIME.name: step_time, LOSS.name: loss}
    rows = list(table_rows(arms, rules.tolerances, built, decisions))
    absent = tuple(row.title for row in rows if is_unfilled(row))
    rows = [allow(row, rules) for row in rows if not is_unfilled(row)]
    verdict, headline = conclude(arms, findings, rows, floors, host_words)
    return ComparisonRecord(
        id=comparison_id(comparison, case, [*baseline, *candidate]),
        comparison=comparison,
        case=case,
        target=target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        question=rules.question,
        baseline=summarise(left).replace(lives=lives_of(left.runs, right.runs)),
        candidate=summarise(right).replace(lives=lives_of(right.runs, left.runs)),
        verdict=verdict,
        headline=headline,
        findings=tuple(findings),
        rows=tuple(rows),
        absent=absent,
        floors=tuple(floors),
        divergence=parity.parity.first,
        curves=tuple(curve for arm in arms for curve in curves_of(arm, less_waits=know_waits(arms))),
        stalls={
            arm.name: tuple(numbered(stall, n) for n, run in enumerate(arm.runs) for stall in run.reading.stalls)
            for arm in arms
        },
        times=tuple(account for arm in arms for account in times_of(arm)),
        parities=tuple(item.parity for item in compared),
        aa=aa,
        equal_by_construction=excuse,
        checkpoints=checkpoints,
        turns=turns,
        host=host,
        function=function,
        coverage=coverage,
        data=data,
    )


def _name_obstacle(arms: Arms, turns: ProgramTimes | None) -> str:
    """Return why the programs did not take turns, or ""."""
    if turns is not None:
        return turns.problem
    return "" if any(run.plan for arm in arms for run in arm.runs) else NO_PROGRAM


def effects_of(rules: VerdictRules, function: FunctionComparison | None) -> Effects:
    """Return the effects of findings. Another mesh or other work per step does not block arms of one function."""
    if function is None or function.answer != "same":
        return rules.effects
    return {
        kind: "qualifies" if kind in OF_WORK and effect == "blocks" else effect
        for kind, effect in rules.effects.items()
    }


def allow(row: MetricDiff, rules: VerdictRules) -> MetricDiff:
    """Return the row. If it is *changed* and the comparison's file allows that, the row gets the reason in the file."""
    why = rules.allowed.get(BY_NAME[row.metric].tolerance, "")
    return row.replace(allowed=why) if why and row.verdict == "changed" else row


def conclude(
    arms: Arms,
    findings: Sequence[Finding],
    rows: Sequence[MetricDiff],
    floors: Sequence[Floor],
    host: str = "",
) -> tuple[Verdict, str]:
    """Return the overall verdict and the headline. A death decides, else a blocking finding, else the worst row.

    Rows that are not judged or whose change is allowed do not count.

    `host`: the explanation of a time difference between arms that run the same program; empty without one.
    """
    baseline, candidate = arms
    between = f"{candidate.label} against {baseline.label}"
    died = [finding.message for finding in findings if finding.kind == "died"]
    if died:
        return ("regressed" if candidate.dead and not baseline.dead else "unknown"), "; ".join(died)
    blocking = [finding.message for finding in findings if finding.effect == "blocks"]
    if blocking:
        return "unknown", f"not comparable: {blocking[0]}"
    qualifying = [finding.message for finding in findings if finding.effect == "qualifies"]
    more = f", and {len(qualifying) - 1} more" if len(qualifying) > 1 else ""
    qualified = f" (but {qualifying[0]}{more})" if qualifying else ""
    judged = [row for row in rows if row.verdict != NOT_JUDGED and not row.allowed]
    for verdict, words in WORDS:
        if not any(row.verdict == verdict for row in judged):
            continue
        uncovered = next((row for row in judged if row.metric == CHANGE.name and row.verdict == "unknown"), None)
        if verdict == "unknown" and uncovered is not None:
            return verdict, f"{between}: {uncovered.reason}{qualified}"
        together = ("regressed", "changed") if verdict == "regressed" else (verdict,)
        named = [row for row in judged if row.verdict in together]
        time = find_time_row(named, verdict)  # one number tells how long a step takes
        named = [row for row in named if row is time or row.metric not in PER_STEP]
        alone = [row for row in named if row.metric not in SHARE_A_VERDICT] or named
        by = f" (by {ONE_RUN})" if any(row.evidence == ONE_RUN for row in alone) and verdict != "unknown" else ""
        why = f": {host}" if host and any(row.metric == STEP_TIME.name for row in alone) else ""
        said = _worst_kind_first(alone) if verdict == "regressed" else words.format(_listed(list(map(_title, alone))))
        return verdict, f"{between}: {said}{by}{why}{qualified}"
    function = next((floor for floor in floors if floor.name == "same function" and floor.holds), None)
    if function is not None:
        return "same", f"{between}: same up to rounding: {function.evidence}{qualified}"
    held = [floor.name for floor in floors if floor.holds]
    failed = next((floor for floor in floors if floor.holds is False), None)
    proof = f" ({_listed(held)})" if held else ""
    if failed is not None:
        but = f'but the check "{failed.name}" failed: {failed.evidence}'
        return "same", f"{between}: every judged row is the same{proof}, {but}{qualified}"
    return "same", f"{between}: no difference{f': {_listed(held)}' if held else ''}{qualified}"


def _worst_kind_first(rows: Sequence[MetricDiff]) -> str:
    """Return the rows with their verdicts in words, results before costs.

    Example: `Loss, step by step changed; Step time, steady +5.1 % regressed`.
    """
    parts = []
    for computed in (True, False):
        for word in ("regressed", "changed"):
            titles = [_title(row) for row in rows if (row.metric in COMPUTED) == computed and row.verdict == word]
            parts += [f"{_listed(titles)} {word}"] if titles else []
    return "; ".join(parts)


def _title(row: MetricDiff) -> str:
    """Return the row's title with its effect or values: `Step time, steady +5.1 %`, `JAX 0.9.2 → 0.8.1`."""
    effect = row.effect_text.partition(" (")[0] if row.verdict in ("regressed", "improved") else ""
    values = dict.fromkeys((row.baseline_text, row.candidate_text))
    if row.baseline is not None and row.candidate is not None and min(row.baseline, row.candidate) >= MEGA:
        rounded = dict.fromkeys(map(show_number, (row.baseline, row.candidate)))
        values = rounded if len(rounded) == 2 else values
    if row.verdict == "changed" and all(values) and len(values) == 2:
        effect = " → ".join(values)
    return f"{row.title} {effect}".rstrip()


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def comparison_id(comparison: str, case: str, runs: Sequence[RunRecord]) -> str:
    """Return the id of the comparison of these runs: further repeats of two versions belong to the same page.

    Given logs name no version: the id is a hash of all of them.
    """
    if all(run.plan for run in runs):
        first: dict[str, RunPlan] = {}
        for run in runs:
            if run.plan is not None:
                first.setdefault(run.arm, run.plan)
        return page_id(comparison, case, list(first.values()))
    facts = [comparison, case, *(run.plan.identity if run.plan else Path(run.log).parent.name for run in runs)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:10]


def page_id(comparison: str, case: str, plans: Sequence[RunPlan]) -> str:
    """Return the id of the comparison of two versions. plans: of the first run of each arm.

    It is a hash of name, case and identities, so that a page has one address, whatever was run or measured on it.
    """
    facts = [comparison, case, *(plan.identity for plan in plans)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:10]


def exit_status(records: Sequence[ComparisonRecord]) -> int:
    """Return 1 if a verdict is *regressed* or *changed* or an arm died; else 3 if a verdict is *unknown*; else 0.

    A comparison with a gate counts by the gate.
    """
    statuses = set(map(_status, records))
    return next((status for status in (1, 3) if status in statuses), 0)


def _status(record: ComparisonRecord) -> int:
    if record.gate is not None:
        return record.gate.status
    if record.verdict in ("regressed", "changed") or any(finding.kind == "died" for finding in record.findings):
        return 1
    return 3 if record.verdict == "unknown" else 0
