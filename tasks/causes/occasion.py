"""Decides whether a comparison is worth explaining, and explains it by running the plans of both arms once more."""

from collections.abc import Sequence
from pathlib import Path

from configs.comparison import load_comparison
from configs.errors import ConfigError
from tasks.causes.explain import Both, explain_plans, say_cost
from tasks.metrics.table import METRICS
from tasks.records import ComparisonRecord, Explanation, RunPlan, RunRecord, seconds_between
from tasks.store import Store

FOLDER = "explained"  # folder of the observations, next to the comparison's record
# Metrics whose difference the programs, or their times on the device, can explain.
_EXPLAINED = frozenset(metric.name for metric in METRICS if metric.explained)
_DIFFERS = frozenset({"changed", "regressed", "improved"})


def find_occasion(record: ComparisonRecord) -> str:
    """Return the names of the differences that an explanation can explain, e.g. rows' titles; empty if none."""
    if record.has_died or record.aa or record.programs is not None:
        return ""
    rows = [row.title for row in record.rows if row.metric in _EXPLAINED and row.verdict in _DIFFERS]
    programs = ["the program" for floor in record.floors if floor.name == "same program" and floor.holds is False]
    return ", ".join([*rows, *programs])


def plans_of(runs: Sequence[RunRecord]) -> Both[RunPlan] | None:
    """Return the plans of the first run of each arm; None unless maxview ran both arms on the local backend."""
    first: dict[str, RunPlan] = {}
    for run in runs:
        if run.plan is not None:
            first.setdefault(run.arm, run.plan)
    if len(first) != 2 or any(plan.backend != "local" for plan in first.values()):
        return None
    left, right = first.values()
    return left, right


def wants_explanation(comparison: str) -> bool:
    """Return whether a comparison's file leaves `explain` at its default, `auto`."""
    try:
        return load_comparison(comparison).explain == "auto"
    except ConfigError:  # the file is missing or invalid here
        return False


def announce(plans: Both[RunPlan], runs: Sequence[RunRecord], why: str) -> str:
    """Return the message before an explanation begins: its reason and its cost."""
    took = [seconds_between(run.reading.started, run.reading.ended) for run in runs]
    return f"differs in {why}: {say_cost(plans, max((one for one in took if one is not None), default=None))}"


def explain_comparison(record: ComparisonRecord, runs: Sequence[RunRecord], store: Store) -> Explanation | None:
    """Return the explanation of a comparison: the stored one, else a new one; None if its runs cannot be repeated."""
    directory = store.comparison(record.comparison, record.case, record.id)
    before = directory.read_comparison()
    if before is not None and before.explanation is not None:
        return before.explanation
    plans = plans_of(runs)
    if plans is None:
        return None
    names = (record.baseline.name, record.candidate.name)
    return explain_plans(plans, names, Path(directory.path) / FOLDER)
