"""Evaluations are judged like losses, and a missing evaluation is reported."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tasks.publish.content.brief import make_brief
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.function import FunctionComparison
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]


def evaluated(losses: Mapping[int, float], **more: Any) -> dict[str, Any]:
    """The evaluations of a log at these steps."""
    rows = [
        {"step": step, "loss": loss, "total_weights": 128.0, "eval_steps": 2, "eval_seconds": 0.5 + step,
         "time": None, "line": 300 + step, "offset": 3000 + step}
        for step, loss in losses.items()
    ]  # fmt: skip
    return {"reading": {"evals": tuple(rows)} | more}


def test_an_evaluation_that_is_half_higher_is_regressed(
    make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    record = compare(make_run("linen", **evaluated({2: 8.0, 5: 7.5})), make_run("nnx", **evaluated({2: 8.0, 5: 8.0})))
    row = row_of(record, "evaluations")
    assert (row.baseline_text, row.candidate_text, row.difference_text) == ("7.500", "8.000", "+0.500")
    assert (row.verdict, record.verdict) == ("regressed", "regressed")
    assert row.candidate_source == Source(line=305, offset=3005)
    assert ": Evaluation regressed" in record.headline
    wording("reasons", record.headline)


def test_equal_evaluations_are_the_same(make_run: MakeRun, compare: Compare, row_of: RowOf) -> None:
    """Their seconds depend on a clock, and are not compared."""
    slower = evaluated({2: 8.0, 5: 7.5})
    slower["reading"]["evals"] = tuple(row | {"eval_seconds": 9.0} for row in slower["reading"]["evals"])
    record = compare(make_run("linen", **evaluated({2: 8.0, 5: 7.5})), make_run("nnx", **slower))
    row = row_of(record, "evaluations")
    assert (row.verdict, row.baseline_text) == ("same", "7.5")
    assert "eval loss" in {parity.metric for parity in record.parities}


def test_after_equal_training_losses_a_small_difference_counts(
    make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    """The same weights were evaluated on other data or in another way."""
    sides = make_run("linen", **evaluated({5: 7.5})), make_run("nnx", **evaluated({5: 7.45}))
    assert row_of(compare(*sides), "evaluations").verdict == "changed"
    one = FunctionComparison(answer="same", sentence="one function")  # equal weights: nothing rounds differently
    record = compare(*sides, function=one)
    assert row_of(record, "evaluations").verdict == "changed"
    assert make_brief(record).sentence.startswith("Evaluation ")
    drifting = make_run("nnx", losses=(9.0, 8.5, 8.0, 7.53, 7.25, 7.0), **evaluated({5: 7.45}))
    assert row_of(compare(sides[0], drifting), "evaluations").verdict == "unknown"  # one run of each


@pytest.mark.parametrize("lost", [{}, {2: 8.0}])
def test_an_evaluation_missing_in_one_arm_is_a_missing_field(
    lost: dict[int, float],
    make_run: MakeRun,
    compare: Compare,
    wording: Wording,
) -> None:
    record = compare(make_run("linen", **evaluated({2: 8.0, 5: 7.5})), make_run("nnx", **evaluated(lost)))
    (finding,) = [finding for finding in record.findings if finding.kind == "missing-field"]
    steps = "5" if lost else "2, 5"
    assert f" step {steps};" in finding.message
    wording("findings", finding.message)
    assert finding.effect == "qualifies"


def test_sets_evaluated_at_one_step_are_distinguished(
    make_run: MakeRun, compare: Compare, row_of: RowOf, wording: Wording
) -> None:
    """Megatron evaluates its validation set and its test set after the last iteration."""

    def run(arm: str, validation: float) -> RunRecord:
        sets = (("validation set", validation), ("test set", 7.0))
        rows = [{"step": 5, "loss": loss, "set": name, "line": 9, "offset": 90} for name, loss in sets]
        return make_run(arm, reading={"evals": tuple(rows)})

    row = row_of(compare(run("linen", 7.0), run("nnx", 7.5)), "evaluations")
    assert row.verdict == "regressed"
    assert row.reason.startswith("eval validation set loss ")
    assert " at step 5" in row.reason
    wording("reasons", row.reason)


def test_a_run_without_evaluations_has_no_row(make_run: MakeRun, compare: Compare) -> None:
    record = compare(make_run("linen"), make_run("nnx"))
    assert "evaluations" not in {row.metric for row in record.rows}
    assert "Evaluation" not in record.absent
