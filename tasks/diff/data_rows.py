"""Judges the data that both arms trained on: the digests of each step's batch, and what the step makes of a difference.

Digests say whether batches differ; only the step can say whether it matters: `tasks.records.data.DataComparison`.
"""

import polars as pl

from configs.frozen import Frozen
from tasks.diff.arms import ArmRuns, Arms
from tasks.diff.metric_rows import make_row, not_judged
from tasks.diff.parity import DATA_COLUMNS
from tasks.diff.setting_differences import kind_of_key
from tasks.metrics.merged_steps import last_of_each_step
from tasks.metrics.result_metrics import DATA
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.data import DataComparison, DataKind
from tasks.records.function import show_relative
from tasks.records.run_facts import Measured
from tasks.records.text import counted


class DataDifference(Frozen):
    """How the batches of two arms differ, by the digests of their runs, else by their recorded steps."""

    kind: DataKind
    steps: int  # number of compared steps
    first: int | None = None  # the first step whose batches differ


def find_data(arms: Arms, recorded: DataComparison | None) -> DataDifference | None:
    """Return how the batches of the arms' first runs differ; None if unknown, or if the runs share a start.

    recorded: the comparison of recorded steps, which decides if the runs have no digests.
    """
    if any(run.plan is not None and run.plan.start is not None for arm in arms for run in arm.runs):
        return None  # a shared start replaces the batches behind the trainer's digest
    tables = [_digests(arm) for arm in arms]
    if tables[0] is None or tables[1] is None:
        if recorded is None:
            return None
        return DataDifference(kind=recorded.kind, steps=recorded.steps, first=recorded.first)
    both = tables[0].join(tables[1], on="step", suffix=" of the other", how="inner").sort("step")
    differ = [both[name] != both[f"{name} of the other"] for name in DATA_COLUMNS]
    if not both.height:
        return None
    if not differ[0].any():
        return DataDifference(kind="equal", steps=both.height)
    first = int(both.filter(differ[0])["step"][0])
    return DataDifference(kind="other" if differ[1].any() else "reordered", steps=both.height, first=first)


def _digests(arm: ArmRuns) -> pl.DataFrame | None:
    table = arm.first.metrics
    if table is None or not table.height or not {"step", *DATA_COLUMNS} <= set(table.columns):
        return None
    return last_of_each_step(table).select("step", *DATA_COLUMNS).drop_nulls()


def data_row(
    arms: Arms, data: DataDifference | None, recorded: DataComparison | None, declared: frozenset[str] = frozenset()
) -> MetricDiff | None:
    """Return the row of the data; None if it is unknown. declared: config keys in which the arms should differ."""
    if data is None:
        return None
    cells = Measured(text=counted(data.steps, "step"))
    names = sorted(key for key in declared if kind_of_key(key) in ("data", "seed"))
    if names and data.kind != "equal":
        decision = not_judged(f"{tell_data(data)}, as declared by {', '.join(names)}")
    else:
        decision = _decide(data, recorded)
    return make_row(DATA, (cells, cells), arms, decision)


def tell_data(data: DataDifference) -> str:
    """Return how the batches differ, in words."""
    if data.kind == "equal":
        return f"every array of every batch is equal in all {counted(data.steps, 'step')}"
    what = "the same rows in another order" if data.kind == "reordered" else "other data"
    return f"{what} from step {data.first} on"


def _decide(data: DataDifference, recorded: DataComparison | None) -> Decision:
    told, seen = tell_data(data), _tell_evaluation(recorded)
    if data.kind == "equal":
        return Decision(verdict="same", reason=told, threshold_text="exact")
    if _sees_none(data, recorded):
        return Decision(verdict="same", reason=f"{told}; {seen}", threshold_text="exact")
    if data.kind == "other" or (recorded is not None and recorded.are_equal is False):
        return Decision(verdict="changed", reason=f"{told}; {seen}", threshold_text="exact")
    return Decision(verdict="unknown", reason=f"{told}; {seen}", threshold_text="exact")


def _sees_none(data: DataDifference, recorded: DataComparison | None) -> bool:
    """Return whether the evaluated step sees no difference.

    False if the runs have other data somewhere, and the recorded steps only another order.
    """
    if recorded is None or not recorded.are_equal:
        return False
    return data.kind != "other" or recorded.kind == "other"


def _tell_evaluation(recorded: DataComparison | None) -> str:
    if recorded is None:
        return "the step was not evaluated with both"
    if recorded.gap is None:
        first = f"the batches of the first {counted(recorded.steps, 'step')} are equal"
        why = recorded.problem or (first if recorded.kind == "equal" else "not tried")
        return f"the step was not evaluated with both: {why}"
    where = f"the baseline's step in float64, with both batches of {counted(len(recorded.evaluated), 'step')},"
    if recorded.are_equal:
        return f"{where} gives the same loss and the same state up to rounding ({show_relative(recorded.gap)})"
    return f"{where} gives results that differ by up to {show_relative(recorded.gap)}"


def decide_by_data(decision: Decision, data: DataDifference | None, recorded: DataComparison | None) -> Decision:
    """Return the decision on losses (or other values) of arms whose batches may differ.

    Losses of other data are *changed*, never *regressed* or *improved*. If only the order of the rows differs, or if
    the step sees no difference, a word that the curves alone gave becomes *unknown*: rounding may explain it. NaN and
    infinities keep their word.
    """
    if data is None or data.kind == "equal" or decision.verdict in ("same", "not judged") or decision.not_finite:
        return decision
    if not _sees_none(data, recorded) and (
        data.kind == "other" or (recorded is not None and recorded.are_equal is False)
    ):
        reason = f"{tell_data(data)}: {decision.reason}"
        return decision.replace(verdict="changed", reason=reason, runs_wanted=None)
    return decision.replace(verdict="unknown", reason=f"{tell_data(data)}: {decision.reason}", runs_wanted=None)
