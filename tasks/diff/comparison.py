"""Turns the run records of two arms into the comparison record that every surface draws."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns, curves_of, summarise
from tasks.diff.comparability import find_findings
from tasks.diff.maxview_rows import maxview_rows
from tasks.diff.our_rows import our_rows
from tasks.diff.parity import floors_of
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
    aa: bool = False,
    next_command: str = "",
) -> ComparisonRecord:
    """Compare the repeats of two arms. `declared` names the config keys they are meant to differ in."""
    arms = [ArmRuns(name=runs[0].arm, label=runs[0].label, runs=tuple(runs)) for runs in (baseline, candidate)]
    findings = find_findings(arms[0], arms[1], declared=declared, aa=aa)
    floors = floors_of(arms[0], arms[1])
    own, decisions, divergence = our_rows(arms[0], arms[1], tolerances, floors)
    rows = [*maxview_rows(arms[0], arms[1], tolerances, decisions), *own]
    verdict, headline = conclude(arms[0], arms[1], findings, rows, floors)
    return ComparisonRecord(
        id=comparison_id(comparison, case, [*baseline, *candidate]),
        comparison=comparison,
        case=case,
        target=target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        question=question,
        baseline=summarise(arms[0]),
        candidate=summarise(arms[1]),
        verdict=verdict,
        headline=headline,
        findings=tuple(findings),
        rows=tuple(rows),
        floors=tuple(floors),
        divergence=divergence,
        curves=tuple(curve for arm in arms for curve in curves_of(arm)),
        stalls={arm.name: tuple(stall for run in arm.runs for stall in run.reading.stalls) for arm in arms},
        next_command=next_command,
    )


def conclude(
    baseline: ArmRuns,
    candidate: ArmRuns,
    findings: Sequence[Finding],
    rows: Sequence[MetricDiff],
    floors: Sequence[Floor],
) -> tuple[Verdict, str]:
    """The overall verdict and the sentence that says why: the worst row, once the arms are comparable."""
    between = f"{candidate.label} against {baseline.label}"
    died = [finding.message for finding in findings if finding.kind == "died"]
    if died:
        return ("regressed" if candidate.dead and not baseline.dead else "unknown"), "; ".join(died)
    regressed = [row.title for row in rows if row.verdict == "regressed"]
    blocking = [finding.message for finding in findings if finding.effect == "blocks"]
    if blocking:
        return "unknown", f"not comparable: {blocking[0]}"
    qualifying = [finding.message for finding in findings if finding.effect == "qualifies"]
    more = f", and {len(qualifying) - 1} more" if len(qualifying) > 1 else ""
    qualified = f" (but {qualifying[0]}{more})" if qualifying else ""
    if regressed:
        return "regressed", f"{between}: {_listed(regressed)} regressed{qualified}"
    unknown = [row.title for row in rows if row.verdict == "unknown" and _was_measured(row)]
    if unknown:
        return "unknown", f"{between}: not enough evidence for {_listed(unknown)}{qualified}"
    improved = [row.title for row in rows if row.verdict == "improved"]
    if improved:
        return "improved", f"{between}: {_listed(improved)} improved, nothing regressed{qualified}"
    held = [floor.name for floor in floors if floor.holds]
    proof = f": {_listed(held)}" if held else ""
    return "same", f"{between}: no difference{proof}{qualified}"


def _was_measured(row: MetricDiff) -> bool:
    """A row that neither side can fill (CPUs have no memory statistics) is not missing evidence."""
    return row.baseline is not None or row.candidate is not None or row.metric == "jax"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def comparison_id(comparison: str, case: str, runs: Sequence[RunRecord]) -> str:
    """The same runs compared again get the same id, so that a page keeps its address."""
    facts = [comparison, case]
    for run in runs:
        facts.append(run.plan.identity if run.plan else f"{run.log}:{run.reading.span}")
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
