"""The words for losses and rounding once both steps were compared in float64."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from configs.verdict_rules import load_effects, load_tolerances, make_rules
from tasks.records.compared_case import ComparisonRecord
from tasks.records.data import DataComparison
from tasks.records.function import FunctionComparison, ResultGap, RoundingBand, RoundingError
from tasks.records.log_reading import Environment, Flops
from tasks.records.run import RunRecord
from tests.sides import compare_sides

type MakeRun = Callable[..., RunRecord]
STEPS = 20
CURVE = np.linspace(9.0, 7.0, STEPS)
NOISE = np.random.default_rng(0).normal(size=STEPS)
BAND = RoundingBand(steps=STEPS, loss=7.0, rms=1e-3, arms=1e-3)
ROUNDING = (RoundingError(quantity="gradients", baseline=0.019, candidate=0.019),)
SAME = FunctionComparison(answer="same", sentence="same function", band=BAND, rounding=ROUNDING, results=42)
GAP = ResultGap(state="step 0", role="metric", meaning="loss", float64=4e-5, as_run=1e-2)
ANOTHER = SAME.replace(answer="another", sentence="another function: loss differs", gaps=(GAP,))


@pytest.fixture
def judge(make_run: MakeRun) -> Callable[..., ComparisonRecord]:
    """judge(function, differences of the loss): runs of 20 steps in full precision."""

    rules = make_rules("Same?", load_tolerances("default"), load_effects())

    def table(losses: np.ndarray) -> pl.DataFrame:
        return pl.DataFrame({"step": range(STEPS), "loss": losses, "step_time_s": [1.0] * STEPS})

    def run(
        function: FunctionComparison | None,
        gaps: Sequence[float],
        devices: tuple[int, int] = (1, 1),
        data: DataComparison | None = None,
    ) -> ComparisonRecord:
        def run_on(count: int, arm: str, losses: np.ndarray) -> RunRecord:
            columns = {"tokens_per_s_per_device": [1000 / count] * STEPS}
            reading = {"environment": Environment(num_devices=count), "flops": Flops(total_tflops=0.8 / count)}
            return make_run(
                arm, seconds=[1.0] * STEPS, losses=list(losses), columns=columns, reading=reading,
                record={"metrics": table(losses)},
            )  # fmt: skip

        sides = [
            [run_on(count, arm, losses)]
            for count, arm, losses in zip(devices, ("linen", "nnx"), (CURVE, CURVE + np.asarray(gaps)), strict=True)
        ]
        known = {"function": function, "data": data}
        return compare_sides(*sides, comparison="c", case="01_base", target="cpu", rules=rules, **known)

    return run


def loss_of(record: ComparisonRecord) -> tuple[str, str]:
    row = next(row for row in record.rows if row.metric == "loss_per_step")
    return row.verdict, row.reason


def test_losses_within_rounding_of_one_function_are_the_same_from_one_run(
    judge: Callable[..., ComparisonRecord],
) -> None:
    record = judge(SAME, 1e-3 * NOISE)
    assert loss_of(record)[0] == "same"
    assert [floor.holds for floor in record.floors if floor.name == "same function"] in ([True], [])


def test_losses_beyond_rounding_of_one_function_are_unknown(judge: Callable[..., ComparisonRecord]) -> None:
    verdict, reason = loss_of(judge(SAME, 12e-3 * NOISE))
    assert verdict == "unknown"
    assert "look at data, schedule, host" in reason


def test_a_first_loss_beyond_rounding_of_one_function_from_equal_arrays_is_of_the_host(
    judge: Callable[..., ComparisonRecord],
) -> None:
    """The logged loss is that of one part of the batch: google/paxml#8."""
    gaps = 0.05 + 12e-3 * NOISE
    equal = DataComparison(steps=6, kind="equal", starts_equal=True)
    verdict, reason = loss_of(judge(SAME, gaps, data=equal))
    assert verdict == "changed"
    assert "the loss of step 0" in reason
    # other weights, another model than the runs', or a difference that training makes: the function tells nothing
    assert loss_of(judge(SAME, gaps, data=equal.replace(starts_equal=False)))[0] == "unknown"
    assert loss_of(judge(SAME.replace(stands_for="another model"), gaps, data=equal))[0] == "unknown"
    assert loss_of(judge(SAME, gaps * (np.arange(STEPS) > 0), data=equal))[0] == "unknown"


@pytest.mark.parametrize(("function", "effect"), [(SAME, "qualifies"), (ANOTHER, "blocks"), (None, "blocks")])
def test_one_function_on_other_devices_is_judged_and_its_time_is_that_of_a_token(
    judge: Callable[..., ComparisonRecord], function: FunctionComparison | None, effect: str
) -> None:
    record = judge(function, 1e-3 * NOISE, devices=(1, 8))
    assert [(found.kind, found.effect) for found in record.findings if "devices" in found.message] == [
        ("device-count", effect)
    ]
    time = next(row for row in record.rows if row.metric == "step_time_s")
    assert ("per token" in time.reason) == (function is SAME)
    assert ("not comparable" in record.headline) == (function is not SAME)


def test_a_late_difference_is_not_hidden_by_early_equality(judge: Callable[..., ComparisonRecord]) -> None:
    gaps = np.where(np.arange(STEPS) >= 15, 0.05, 0.0)
    assert loss_of(judge(SAME, gaps))[0] == "unknown"


@pytest.mark.parametrize(("size", "word"), [(1e-3, "changed"), (0.5, "regressed"), (-0.5, "changed")])
def test_another_function_changes_the_loss_and_its_side_shows_beyond_rounding(
    judge: Callable[..., ComparisonRecord], size: float, word: str
) -> None:
    record = judge(ANOTHER, np.full(STEPS, size))
    verdict, reason = loss_of(record)
    assert verdict == word
    assert "improved" not in {row.verdict for row in record.rows}  # what trains another function may train too much
    assert "another function" in reason


def test_equal_losses_of_another_function_are_changed(judge: Callable[..., ComparisonRecord]) -> None:
    assert loss_of(judge(ANOTHER, np.zeros(STEPS)))[0] == "changed"


def test_a_loss_that_became_nan_is_regressed_in_spite_of_one_function(judge: Callable[..., ComparisonRecord]) -> None:
    gaps = np.where(np.arange(STEPS) == 10, np.nan, 0.0)
    assert loss_of(judge(SAME, gaps))[0] == "regressed"


def test_without_the_experiment_the_curves_decide(judge: Callable[..., ComparisonRecord]) -> None:
    refused = FunctionComparison(answer="not evaluated", sentence="not evaluated: why")
    gaps = 1e-3 * NOISE
    assert loss_of(judge(refused, gaps)) == loss_of(judge(None, gaps))


@pytest.mark.parametrize(("factor", "word"), [(1.0, "same"), (1.2, "same"), (3.0, "regressed"), (1 / 3, "improved")])
def test_rounding_is_judged_by_its_factor(judge: Callable[..., ComparisonRecord], factor: float, word: str) -> None:
    error = RoundingError(quantity="gradients", baseline=0.01, candidate=0.01 * factor)
    record = judge(SAME.replace(rounding=(error,)), np.zeros(STEPS))
    row = next(row for row in record.rows if row.metric == "rounding_error")
    assert row.verdict == word


def test_weights_that_round_worse_are_a_regression_beside_equal_gradients(
    judge: Callable[..., ComparisonRecord],
) -> None:
    stored = RoundingError(quantity="parameters", baseline=2.5e-8, candidate=1.7e-3)  # bf16 after every update
    record = judge(SAME.replace(rounding=(*ROUNDING, stored)), np.zeros(STEPS))
    row = next(row for row in record.rows if row.metric == "rounding_error")
    assert row.verdict == "regressed"
    assert "rounding error of parameters" in row.reason


def test_one_layer_that_rounds_worse_is_named(judge: Callable[..., ComparisonRecord]) -> None:
    worst = RoundingError(quantity="layers.mlp.wo", baseline=0.01, candidate=0.03)
    record = judge(SAME.replace(worst_gradient=worst), np.zeros(STEPS))
    row = next(row for row in record.rows if row.metric == "rounding_error")
    assert (row.verdict, row.baseline, row.candidate) == ("regressed", pytest.approx(1.0), pytest.approx(3.0))
    assert "layers.mlp.wo" in row.reason


def test_another_function_is_the_verdict_where_no_loss_is_logged(make_run: MakeRun) -> None:
    losses: list[Any] = [None] * 12
    sides = [[make_run(arm, seconds=[1.0] * 12, losses=losses)] for arm in ("linen", "nnx")]
    rules = make_rules("Same?", load_tolerances("default"), load_effects())
    words = {}
    for function in (None, ANOTHER):
        record = compare_sides(*sides, comparison="c", case="01_base", target="cpu", rules=rules, function=function)
        words[function] = record.verdict
    assert words == {None: "unknown", ANOTHER: "changed"}
    assert "Function of the step changed" in record.headline
