"""Turns the run records of two arms into the comparison record that every surface draws."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from configs.comparison import Tolerance, load_effects
from configs.findings import Effects
from tasks.diff.arms import ArmRuns, cpu_seconds, curves_of, numbered, summarise
from tasks.diff.checkpoint_row import checkpoint_row
from tasks.diff.comparability import find_findings
from tasks.diff.floors import floors_of
from tasks.diff.maxview_rows import maxview_rows
from tasks.diff.parity import compare_metric, shared_metrics
from tasks.diff.parity_rows import loss_row, values_row
from tasks.diff.rows import NOT_JUDGED, is_unfilled
from tasks.diff.stall_rows import stall_rows
from tasks.diff.state_rows import memory_row
from tasks.diff.time_rows import Circumstances, cpu_time_row, first_step_row, step_time_row
from tasks.diff.times import account_times
from tasks.records import ComparisonRecord, Finding, Floor, MetricDiff, RunRecord, Verdict


def diff(
    baseline: Sequence[RunRecord],
    candidate: Sequence[RunRecord],
    *,
    comparison: str,
    case: str,
    target: str,
    question: str,
    tolerances: Mapping[str, Tolerance],
    declared: frozenset[str] = frozenset(),
    effects: Effects | None = None,
    aa: bool = False,
    next_command: str = "",
    given: Circumstances | None = None,
) -> ComparisonRecord:
    """Compare the repeats of two arms.

    `declared` names the config keys they are meant to differ in; `effects` says what each finding does to the verdict
    (None: as the default set says); `given` what the noise is judged with.
    """
    left, right = (ArmRuns(name=runs[0].arm, label=runs[0].label, runs=tuple(runs)) for runs in (baseline, candidate))
    arms = (left, right)
    parity, *others = [compare_metric(arms, metric) for metric in shared_metrics(arms)]
    findings = find_findings(
        arms, declared=declared, effects=effects or load_effects(), aa=aa, parities=(parity, *others)
    )
    floors = floors_of(left, right)
    same_program = any(floor.name == "same program" and floor.holds for floor in floors)
    values = values_row(arms, others, tolerances["step_values"])
    measured = [cpu_seconds(run) is not None for arm in arms for run in arm.runs]
    given = (given or Circumstances()).shared_by(1 + all(measured))
    time_row, step_time = step_time_row(arms, tolerances["step_time_s"], same_program=same_program, given=given)
    cpu_row = cpu_time_row(arms, tolerances["step_cpu_time_s"], same_program=same_program, given=given)
    times = account_times(arms)
    rows = [
        *maxview_rows(arms, tolerances, step_time, parity.unit),
        time_row,
        *([cpu_row] if cpu_row else []),
        *stall_rows(arms, times, same_program=same_program),
        first_step_row(arms, same_program=same_program),
        loss_row(arms, parity, tolerances["loss"]),
        *([values] if values else []),
        memory_row(arms, tolerances["program_memory_gb"]),
        checkpoint_row(arms),
    ]
    verdict, headline = conclude(left, right, findings, rows, floors)
    return ComparisonRecord(
        id=comparison_id(comparison, case, [*baseline, *candidate]),
        comparison=comparison,
        case=case,
        target=target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        question=question,
        baseline=summarise(left),
        candidate=summarise(right),
        verdict=verdict,
        headline=headline,
        findings=tuple(findings),
        rows=tuple(rows),
        floors=tuple(floors),
        divergence=parity.parity.first,
        curves=tuple(curve for arm in arms for curve in curves_of(arm)),
        stalls={
            arm.name: tuple(numbered(stall, n) for n, run in enumerate(arm.runs) for stall in run.reading.stalls)
            for arm in arms
        },
        next_command=next_command,
        times=times,
        parities=tuple(found.parity for found in (parity, *others)),
        aa=aa,
    )


def conclude(
    baseline: ArmRuns,
    candidate: ArmRuns,
    findings: Sequence[Finding],
    rows: Sequence[MetricDiff],
    floors: Sequence[Floor],
) -> tuple[Verdict, str]:
    """The overall verdict and the sentence that says why: the worst judged row, once the arms are comparable."""
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
    judged = [row for row in rows if row.threshold_text != NOT_JUDGED and not is_unfilled(row)]
    titles = {verdict: [row.title for row in judged if row.verdict == verdict] for verdict in get_args(Verdict)}
    if titles["regressed"]:
        return "regressed", f"{between}: {_listed(titles['regressed'])} regressed{qualified}"
    if titles["unknown"]:
        return "unknown", f"{between}: not enough evidence for {_listed(titles['unknown'])}{qualified}"
    if titles["improved"]:
        return "improved", f"{between}: {_listed(titles['improved'])} improved, nothing regressed{qualified}"
    held = [floor.name for floor in floors if floor.holds]
    failed = [floor.name for floor in floors if floor.holds is False]
    proof = f": {_listed(held)}" if held else ""
    proof += f" ({_listed(failed)} does not hold)" if failed else ""
    return "same", f"{between}: no difference{proof}{qualified}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def comparison_id(comparison: str, case: str, runs: Sequence[RunRecord]) -> str:
    """The same runs compared again get the same id, so that a page keeps its address."""
    facts = [comparison, case]
    for run in runs:
        facts.append(run.plan.identity if run.plan else Path(run.log).parent.name)
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:10]


def exit_status(records: Sequence[ComparisonRecord]) -> int:
    """0 nothing regressed; 1 something regressed or an arm failed; 3 unknown or not comparable."""
    failed = any(
        record.verdict == "regressed" or any(finding.kind == "died" for finding in record.findings)
        for record in records
    )
    if failed:
        return 1
    return 3 if any(record.verdict == "unknown" for record in records) else 0
