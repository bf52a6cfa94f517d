"""Compares the runs of two arms by given rules, as a case of a comparison is compared."""

from collections.abc import Sequence
from typing import Any

from configs.verdict_rules import VerdictRules
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.records.compared_case import ComparisonRecord
from tasks.records.measurement import Measurements
from tasks.records.run import RunRecord


def compare_sides(
    baseline: Sequence[RunRecord],
    candidate: Sequence[RunRecord],
    *,
    rules: VerdictRules,
    comparison: str = "linen-vs-nnx",
    case: str = "01_base",
    target: str = "cpu",
    aa: bool = False,
    chance: float | None = None,
    **more: Any,
) -> ComparisonRecord:
    """Return the comparison.

    aa: the arms should be equal. chance: of a false alarm. more: further fields of the case, or measurements.
    """
    rules = rules.replace(arms=(baseline[0].arm, candidate[0].arm), alike=aa)
    evidence = Measurements(**{name: more.pop(name) for name in Measurements.model_fields if name in more})
    runs = (*baseline, *candidate)
    examined = examine(CaseRuns(comparison=comparison, case=case, target=target, runs=runs, rules=rules, **more))
    if chance is not None:
        assert examined.runs is not None
        circumstances = examined.runs.circumstances.replace(chance=chance)
        examined = examined.replace(runs=examined.runs.replace(circumstances=circumstances), decided=None)
    return judge(examined, evidence)
