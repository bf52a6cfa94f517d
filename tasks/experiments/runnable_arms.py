"""Finds the two plans of a comparison whose arms can run again here, and whether its file wants that."""

from collections.abc import Sequence

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord


def plans_of(runs: Sequence[RunRecord]) -> tuple[RunPlan, RunPlan] | None:
    """Return the plans of the first run of each arm; None unless maxview ran both arms on the local backend."""
    plans = any_plans_of(runs)
    return plans if plans and all(plan.backend == "local" for plan in plans) else None


def any_plans_of(runs: Sequence[RunRecord]) -> tuple[RunPlan, RunPlan] | None:
    """Return the plans of the first run of each arm, on one backend; None if the runs have no such plans."""
    first: dict[str, RunPlan] = {}
    for run in runs:
        if run.plan is not None:
            first.setdefault(run.arm, run.plan)
    if len(first) != 2 or len({plan.backend for plan in first.values()}) != 1:
        return None
    left, right = first.values()
    return left, right


def wants_explanation(comparison: str) -> bool:
    """Return whether a comparison's `explain` is `auto`, the default; False if its file cannot be read."""
    try:
        return load_comparison(comparison).explain == "auto"
    except ConfigError:  # the file is missing or invalid here
        return False


def has_other_cost(record: ComparisonRecord) -> bool:
    """Return whether the programs' time or memory is better or worse."""
    costs = (PROGRAM_TIME.name, MEMORY.name)
    return any(row.verdict in ("regressed", "improved") for row in record.rows if row.metric in costs)
