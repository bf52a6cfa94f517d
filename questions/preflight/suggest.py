"""Offers the compile for a TPU slice as the next step of arms that agree here."""

from collections.abc import Sequence

from configs.comparison import load_target
from tasks.diff.judge.suggested_commands import options_of_arms, options_of_plan
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan


def suggest(record: ComparisonRecord, plans: Sequence[RunPlan]) -> list[str]:
    """Return the words of `maxview preflight`; [] without libtpu, which compiles for TPUs, or on a TPU slice."""
    if load_target(record.target).topology or not all("libtpu" in plan.versions and not plan.aa for plan in plans):
        return []
    same = [*options_of_plan(plans[0]), *options_of_arms(plans)]
    return ["maxview", "preflight", record.comparison, "--case", record.case, *same]
