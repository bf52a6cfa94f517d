"""Compares the two compiles of a case, by the verdict rules in their plans."""

from collections.abc import Sequence

from configs.verdict_rules import load_verdict_rules
from tasks.preflight.read_compiles import read_compile
from tasks.preflight.verdict import compare_compiles
from tasks.records import ComparisonRecord, RunRecord
from tasks.store import Store


def compare_case_compiled(records: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """Return the comparison of a case's two compiles. Raises StoreError if their files are damaged."""
    plan = records[0].plan
    assert plan is not None  # every compile has one
    rules = plan.rules or load_verdict_rules(plan.comparison, plan.target)
    by_arm = {record.arm: record for record in records}
    baseline, candidate = (read_compile(by_arm[name], store) for name in rules.arms)
    return compare_compiles(baseline, candidate, comparison=plan.comparison, case=plan.case, rules=rules)
