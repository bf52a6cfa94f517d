"""Offers the explanation of two arms that cannot be judged as the comparison's next step."""

from collections.abc import Sequence
from pathlib import Path

from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan


def suggest(record: ComparisonRecord, plans: Sequence[RunPlan]) -> list[str]:
    """Return the words of `maxview explain` with the comparison's folder; [] if an arm did not run on this machine."""
    if any(plan.backend != "local" for plan in plans):
        return []
    store = Path(plans[0].directory).parent.parent
    return ["maxview", "explain", str(store / "comparisons" / record.comparison / record.case / record.id)]
