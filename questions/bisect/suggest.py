"""Offers the bisection between the commits of a comparison's arms as its next step."""

from collections.abc import Sequence

from tasks.diff.judge.suggested_commands import options_of_plan
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan


def suggest(record: ComparisonRecord, plans: Sequence[RunPlan]) -> list[str]:
    """Return the words of `maxview bisect` between the commits of both arms, or an empty list.

    Not empty if the verdict is regressed or changed, both commits are known, the candidate's is several commits after
    the baseline's, and no arm has packages of its own.
    """
    before, after = plans
    between = record.commits.get(record.candidate.name, ())
    diverged = bool(record.commits.get(record.baseline.name))
    if record.verdict not in ("regressed", "changed") or len(between) < 2 or diverged:
        return []
    if any(plan.version is not None and plan.version.changed for plan in plans):
        return []  # a bisection sees commits only
    if before.software or after.software or not before.commit or not after.commit:
        return []
    words = ["maxview", "bisect", record.comparison, "--good", before.commit[:9], "--bad", after.commit[:9]]
    words += ["--case", record.case, "--target", record.target]
    words += ["--repository", after.repository] if after.repository else []
    worse = {row.metric for row in record.rows if row.verdict in ("regressed", "changed") and not row.allowed}
    words += ["--metric", "time"] if worse == {PROGRAM_TIME.name} else []  # trains nothing
    return [*words, *options_of_plan(after)]
