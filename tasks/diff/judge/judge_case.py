"""Turns an examination of two arms (compared versions) and the evidence of experiments into their comparison."""

from datetime import UTC, datetime

from tasks.diff.examine.examination import Decided, Examination
from tasks.diff.judge.conclude import conclude
from tasks.diff.judge.host_rows import judge_by_host
from tasks.diff.judge.one_executable import TIMES
from tasks.diff.judge.regrade import regrade
from tasks.diff.judge.run_rows import decide_runs
from tasks.diff.judge.step_rows import decide_steps
from tasks.diff.phrases.headlines import tell_headline
from tasks.records.compared_case import ComparisonRecord
from tasks.records.measurement import NOTHING, Measurements


def judge(examined: Examination, evidence: Measurements = NOTHING) -> ComparisonRecord:
    """Return the comparison of two arms: the only place that makes one."""
    subject, shown = examined.subject, examined.shown
    found = regrade(examined, evidence)
    decided = _decide(found, evidence)
    conclusion = conclude(found, decided)
    return ComparisonRecord(
        id=subject.id,
        comparison=subject.comparison,
        case=subject.case,
        target=subject.target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        question=subject.rules.question,
        verdict=conclusion.verdict,
        headline=tell_headline(conclusion),
        conclusion=conclusion,
        findings=found.findings,
        rows=decided.rows,
        absent=decided.absent,
        floors=found.floors,
        aa=subject.aa,
        code=subject.code,
        commits=subject.commits,
        coverage=decided.coverage,
        turns=evidence.turns,
        loops=evidence.loops,
        host=evidence.host,
        function=evidence.function,
        data=evidence.data,
        **dict(shown),
    )


def _decide(examined: Examination, evidence: Measurements) -> Decided:
    """Return the rows, decided once: those of the examination unless an experiment tells more about them."""
    decided = examined.decided
    if examined.steps is not None:
        return decide_steps(examined, evidence)
    if decided is None or evidence.replace(host=None) != NOTHING:
        decided = decide_runs(examined, evidence)
    host = evidence.host
    if not examined.proved or host is None:
        return decided
    return decided.replace(rows=tuple(judge_by_host(row, host) if row.metric in TIMES else row for row in decided.rows))
