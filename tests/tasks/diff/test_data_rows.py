"""The data of both arms: equal in every step, in another order, or other data; what the step makes of a difference."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest

from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.data_differences import DataDifference, find_data
from tasks.diff.judge.data_rows import decide_by_data
from tasks.records.compared_case import ComparisonRecord, Decision, MetricDiff
from tasks.records.data import DataComparison
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]

STEPS = 6
EQUAL = ([7, 8, 9, 7, 8, 9], [1, 2, 3, 1, 2, 3])  # digests with the order of the rows, and without
REORDERED = ([7, 8, 9, 4, 5, 6], [1, 2, 3, 1, 2, 3])
OTHER = ([7, 8, 9, 4, 5, 6], [1, 2, 3, 1, 5, 6])
SEEN = DataComparison(steps=6, kind="reordered", first=3, evaluated=(3, 4), gap=2e-15, are_equal=True)
RECUT = SEEN.replace(kind="other")
NOT_SEEN = SEEN.replace(gap=0.012, are_equal=False, kind="other")
LOSSES = (9.0, 8.5, 8.0, 7.5, 7.25, 7.0)


def run_with(make_run: MakeRun, arm: str, digests: tuple[Sequence[int], ...], losses: Sequence[float]) -> RunRecord:
    columns = dict(zip(("batch_digest", "batch_rows_digest"), digests, strict=True))
    table = {"step": range(STEPS), "loss": losses, "step_time_s": [0.1] * STEPS, **columns}
    return make_run(arm, losses=losses, record={"metrics": pl.DataFrame(table)})


def judge(
    make_run: MakeRun, compare: Callable[..., ComparisonRecord], digests: Any, data: DataComparison | None, **more: Any
) -> dict[str, MetricDiff]:
    """The rows of two runs whose losses part by a last bit from the fourth step on."""
    losses = [one + (1e-6 if n >= 3 else 0) for n, one in enumerate(LOSSES)]
    runs = [
        run_with(make_run, arm, given, curve)
        for arm, given, curve in (("linen", EQUAL, LOSSES), ("nnx", digests, losses if digests != EQUAL else LOSSES))
    ]
    return {row.metric: row for row in compare(*runs, data=data, **more).rows}


@pytest.mark.parametrize(
    ("digests", "data", "word", "said"),
    [
        (EQUAL, None, "same", "every array of every batch is equal in all 6 steps"),
        (REORDERED, SEEN, "same", "the same rows in another order from step 3 on"),
        (REORDERED, None, "unknown", "the same rows in another order from step 3 on"),
        (REORDERED, NOT_SEEN, "changed", "differ by up to 1.2 %"),
        (OTHER, NOT_SEEN, "changed", "other data from step 3 on"),
        (OTHER, None, "changed", "other data from step 3 on"),
        (OTHER, SEEN, "changed", "other data from step 3 on"),  # in later steps than the recorded ones
        (OTHER, RECUT, "same", "other data from step 3 on"),  # as if a batch were cut into other rows
    ],
)
def test_the_row_of_the_data(
    digests: Any, data: Any, word: str, said: str, make_run: MakeRun, compare: Any, wording: Wording
) -> None:
    rows = judge(make_run, compare, digests, data)
    assert rows["data"].verdict == word
    assert said in rows["data"].reason
    wording("reasons", rows["data"].reason)
    assert "regressed" not in {row.verdict for row in rows.values()}
    if word == "changed":
        assert rows["loss_per_step"].verdict == "changed"
        assert rows["loss_per_step"].reason.startswith(("other data", "the same rows"))


def test_digests_are_no_other_values(make_run: MakeRun, compare: Any) -> None:
    assert "values_per_step" not in judge(make_run, compare, REORDERED, SEEN)


def test_declared_data_are_not_judged(make_run: MakeRun, compare: Any) -> None:
    rows = judge(make_run, compare, OTHER, None, declared=frozenset({"data_shuffle_seed"}))
    assert rows["data"].verdict == "not judged"


@pytest.mark.parametrize(
    ("word", "not_finite", "expected"),
    [("regressed", False, "changed"), ("improved", False, "changed"), ("unknown", False, "changed"),
     ("same", False, "same"), ("regressed", True, "regressed")],
)  # fmt: skip
def test_a_loss_of_other_data_is_changed(word: Any, not_finite: bool, expected: str) -> None:
    data = DataDifference(kind="other", steps=6, first=3)
    decision = Decision(verdict=word, reason="why", not_finite=not_finite)
    assert decide_by_data(decision, data, None).verdict == expected


def test_a_loss_beyond_the_order_of_rows_is_unknown() -> None:
    data = DataDifference(kind="reordered", steps=6, first=3)
    assert decide_by_data(Decision(verdict="regressed", reason="higher"), data, SEEN).verdict == "unknown"


def test_recorded_steps_tell_where_runs_have_no_digests(make_run: MakeRun) -> None:
    left, right = (ArmRuns(name=arm, label=arm, runs=(make_run(arm),)) for arm in ("a", "b"))
    assert find_data((left, right), None) is None
    assert find_data((left, right), SEEN) == DataDifference(kind="reordered", steps=6, first=3)
