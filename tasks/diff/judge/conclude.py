"""Findings, rows and floors of two arms (compared versions) → the overall verdict as fields."""

from collections.abc import Sequence

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.examination import Decided, Examination
from tasks.diff.judge.metric_rows import NOT_JUDGED
from tasks.diff.judge.next_step import PER_STEP, find_time_row
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.metrics.result_metrics import CHANGE
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.compared_case import Conclusion, Death, DecidingRow, FailedCheck, Finding, Floor, MetricDiff, Verdict
from tasks.records.plan import CodeVersion
from tasks.records.text import MEGA, show_number

WORST_FIRST: tuple[Verdict, ...] = ("regressed", "changed", "unknown", "improved")  # verdicts that differ from *same*
# rows that a headline names before times and memory
COMPUTED = frozenset(metric.name for metric in METRICS if metric.result)
# rows that share the verdict of another row; a headline names only that other row
SHARE_A_VERDICT = frozenset(metric.name for metric in METRICS if metric.verdict_of)


def conclude(examined: Examination, decided: Decided) -> Conclusion:
    """Return the overall verdict of an examination with its decided rows, and what qualifies it.

    A death decides, else a blocking finding, else the worst row, else the proof.
    """
    subject, shown = examined.subject, examined.shown
    code = [subject.code[arm.name] for arm in examined.arms if arm.name in subject.code]
    found = decide_overall(examined.arms, examined.findings, decided.rows, examined.floors, decided.host)
    note = _compare_code(code) if len(code) == len(examined.arms) else {}
    return found.replace(not_tried=shown.not_tried, **note)


def decide_overall(
    arms: Arms,
    findings: Sequence[Finding],
    rows: Sequence[MetricDiff],
    floors: Sequence[Floor],
    host: str = "",
) -> Conclusion:
    """Return the overall verdict. Rows that are not judged or whose change is allowed do not count.

    host: explains a time difference between arms that run the same program; empty without one.
    """
    baseline, candidate = arms
    labels = baseline.label, candidate.label
    died = tuple(Death(message=one.message, claim=one.claim) for one in findings if one.kind == "died")
    if died:
        verdict: Verdict = "regressed" if candidate.dead and not baseline.dead else "unknown"
        return Conclusion(verdict=verdict, arms=labels, died=died)
    blocking = [finding.message for finding in findings if finding.effect == "blocks"]
    if blocking:
        return Conclusion(verdict="unknown", arms=labels, blocked=blocking[0])
    qualified = tuple(finding.message for finding in findings if finding.effect == "qualifies")
    judged = [row for row in rows if row.verdict != NOT_JUDGED and not row.allowed]
    worst = next((word for word in WORST_FIRST if any(row.verdict == word for row in judged)), None)
    if worst is None:
        return _prove_same(floors).replace(arms=labels, qualified=qualified)
    uncovered = next((row for row in judged if row.metric == CHANGE.name and row.verdict == "unknown"), None)
    if worst == "unknown" and uncovered is not None:
        return Conclusion(verdict=worst, arms=labels, uncovered=uncovered.reason, qualified=qualified)
    deciding = _find_deciding(judged, worst)
    return Conclusion(
        verdict=worst,
        arms=labels,
        rows=tuple(
            DecidingRow(metric=row.metric, shown=_show(row), verdict=row.verdict, is_result=row.metric in COMPUTED)
            for row in deciding
        ),
        by_one_run=worst != "unknown" and any(row.evidence == ONE_RUN for row in deciding),
        host=host if any(row.metric == STEP_TIME.name for row in deciding) else "",
        qualified=qualified,
    )


def _find_deciding(judged: Sequence[MetricDiff], worst: Verdict) -> list[MetricDiff]:
    """Return the rows that the headline names: one number tells how long a step takes."""
    together = ("regressed", "changed") if worst == "regressed" else (worst,)
    named = [row for row in judged if row.verdict in together]
    time = find_time_row(named, worst)
    named = [row for row in named if row is time or row.metric not in PER_STEP]
    return [row for row in named if row.metric not in SHARE_A_VERDICT] or named


def _prove_same(floors: Sequence[Floor]) -> Conclusion:
    """Return the verdict *same* with its proof by floors, and the first floor that does not hold."""
    function = next((floor for floor in floors if floor.name == "same function" and floor.holds), None)
    failed = next((floor for floor in floors if floor.holds is False), None)
    return Conclusion(
        verdict="same",
        function=function.evidence if function is not None else "",
        held=tuple(floor.name for floor in floors if floor.holds),
        failed=FailedCheck(name=failed.name, evidence=failed.evidence) if failed is not None else None,
    )


def _compare_code(code: Sequence[CodeVersion]) -> dict[str, object]:
    """Return the note if two versions do not differ for the trainer, with their names; empty if they differ."""
    left, right = code
    versions = (left.name, right.name)
    if left.sha == right.sha:
        return {"note": "one commit", "versions": versions} if left.name != right.name else {}
    if right.different == ():
        return {"note": "no file", "versions": versions}
    return {"note": "no file that is read", "versions": versions} if right.read == 0 else {}


def _show(row: MetricDiff) -> str:
    """Return the row's title with its effect or values: `Step time, steady +5.1 %`, `JAX 0.9.2 → 0.8.1`."""
    effect = row.effect_short if row.verdict in ("regressed", "improved") else ""
    values = dict.fromkeys((row.baseline_text, row.candidate_text))
    if row.baseline is not None and row.candidate is not None and min(row.baseline, row.candidate) >= MEGA:
        rounded = dict.fromkeys(map(show_number, (row.baseline, row.candidate)))
        values = rounded if len(rounded) == 2 else values
    if row.verdict == "changed" and all(values) and len(values) == 2:
        effect = " → ".join(values)
    return f"{row.title} {effect}".rstrip()
