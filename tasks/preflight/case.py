"""Gathers the compiles of one case and compares them by the rules that came with their plans."""

import shlex
from collections.abc import Sequence

from configs.comparison import load_comparison
from configs.verdict_rules import load_verdict_rules
from tasks.diff.case import arm_wishes, wishes_of
from tasks.preflight.read import read_compile
from tasks.preflight.verdict import compare_compiles
from tasks.records import ComparisonRecord, RunRecord
from tasks.store import Store


def compare_case_compiled(records: Sequence[RunRecord], store: Store) -> ComparisonRecord:
    """The comparison of a case's two compiles. Raises StoreError if what they left is damaged."""
    plan = records[0].plan
    assert plan is not None  # every compile has one
    by_arm = {record.arm: record for record in records}
    baseline, candidate = (by_arm[arm.name] for arm in load_comparison(plan.comparison).arms)
    record = compare_compiles(
        read_compile(baseline, store),
        read_compile(candidate, store),
        comparison=plan.comparison,
        case=plan.case,
        rules=plan.rules or load_verdict_rules(plan.comparison, plan.target),
    )
    words = ["maxview", "compare", plan.comparison, "--case", plan.case, "--target", plan.target]
    words += [*wishes_of(plan), *arm_wishes([baseline.plan, candidate.plan])]
    if record.programs and record.programs.unfit:
        failed = baseline if baseline.arm in record.programs.unfit else candidate
        words = ["less", failed.log]
    return record.model_copy(update={"next_command": shlex.join(words)})
