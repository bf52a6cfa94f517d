"""Judges the data that both arms trained on: the digests of each step's batch, and what the step makes of a difference.

Digests say whether batches differ; only the step can say whether it matters: `tasks.records.data.DataComparison`.
"""

from tasks.diff.examine.arms import Arms
from tasks.diff.examine.data_differences import DataDifference
from tasks.diff.examine.setting_differences import kind_of_key
from tasks.diff.judge.metric_rows import make_row, not_judged
from tasks.metrics.result_metrics import DATA
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.data import DataComparison
from tasks.records.function import show_relative
from tasks.records.run_facts import Measured
from tasks.records.text import counted


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
    return f"{what} from step {data.first} on{f': {data.named}' if data.named else ''}"


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
