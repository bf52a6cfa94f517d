"""Runs or plans of two versions → the id of their comparison, which is a part of its page's address."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord


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
