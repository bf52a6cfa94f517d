"""The first difference of losses, bit for bit or as printed, and the three floors."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from math import inf, nan
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.floors import floors_of
from tasks.diff.examine.parity import EXACT, MetricParity, compare_metric, shared_metrics
from tasks.records.compared_case import Floor
from tasks.records.run import RunRecord
from tasks.records.shared_fields import Source
from tests.wording.sentences import Wording

UNHURRIED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)

type MakeRun = Callable[..., RunRecord]
type ArmOf = Callable[..., ArmRuns]

PRINTED = "printed precision (3 decimals)"


def compare_losses(*sides: RunRecord | list[RunRecord]) -> MetricParity:
    left, right = ([side] if isinstance(side, RunRecord) else side for side in sides)
    return compare_metric(
        (ArmRuns(name="linen", label="linen", runs=tuple(left)), ArmRuns(name="nnx", label="nnx", runs=tuple(right)))
    )


# ---------------------------------------------------------------- as printed


def test_equal_prints_are_equal_to_printed_precision(make_run: MakeRun) -> None:
    parity = compare_losses(make_run("linen"), make_run("nnx"))
    assert (parity.parity.steps, parity.parity.precision, parity.parity.first) == (6, PRINTED, None)
    assert parity.unit == 0.001


def test_the_first_difference_and_the_largest_are_both_found(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.459, 7.5, 7.0))
    right = make_run("nnx", losses=(9.0, 8.458, 7.7, 7.0))
    parity = compare_losses(left, right)
    assert parity.parity.first is not None
    assert (parity.parity.first.step, parity.parity.first.baseline, parity.parity.first.candidate) == (
        1,
        "8.459",
        "8.458",
    )


def test_only_common_steps_count(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.0, 7.0))
    right = make_run("nnx", losses=(8.0, 7.0, 6.0), first=1)
    assert compare_losses(left, right).parity.steps == 2
    assert compare_losses(left, right).parity.first is None
    assert compare_losses(left, make_run("nnx", losses=(1.0,), first=9)).parity.steps == 0


def test_the_last_row_of_a_repeated_step_counts(make_run: MakeRun) -> None:
    again = make_run("nnx", losses=(9.0, 1.0, 8.0, 7.0), columns={"step": [0, 1, 1, 2]})
    assert compare_losses(make_run("linen", losses=(9.0, 8.0, 7.0)), again).parity.first is None


def test_logs_with_more_digits_are_compared_in_more_digits(make_run: MakeRun) -> None:
    left, right = make_run("linen", losses=(10.90931, 9.0)), make_run("nnx", losses=(10.90932, 9.0))
    parity = compare_losses(left, right)
    assert parity.parity.first is not None
    assert (parity.parity.first.baseline, parity.parity.first.candidate) == ("10.90931", "10.90932")
    assert parity.unit == pytest.approx(1e-5)
    assert parity.parity.precision == "printed precision (5 decimals)"


@pytest.mark.parametrize(
    ("left", "right", "first"),
    [((1.0, nan), (1.0, nan), None), ((1.0, nan), (1.0, 0.5), 1), ((1.0, 0.5), (1.0, inf), 1), ((inf,), (inf,), None)],
)
def test_nan_and_infinities(left: Any, right: Any, first: int | None, make_run: MakeRun) -> None:
    parity = compare_losses(make_run("linen", losses=left), make_run("nnx", losses=right))
    assert (parity.parity.first.step if parity.parity.first else None) == first


def test_a_nan_on_one_side_is_the_largest_difference(make_run: MakeRun) -> None:
    left, right = make_run("linen", losses=(9.0, 8.0, 7.0)), make_run("nnx", losses=(5.0, nan, 1.0))
    assert compare_losses(left, right).parity.largest_step == 1


def test_steps_without_a_loss_are_skipped(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(None, 8.0, 7.0))
    assert compare_losses(left, make_run("nnx", losses=(9.0, 8.0, 7.0))).parity.steps == 2


# ---------------------------------------------------------------- bit for bit


def test_full_precision_finds_differences_below_the_printed_digits(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.0), exact=(9.0, 8.0000001))
    right = make_run("nnx", losses=(9.0, 8.0), exact=(9.0, 8.0000002))
    parity = compare_losses(left, right)
    assert parity.parity.first is not None
    assert (parity.parity.first.step, parity.parity.precision, parity.unit) == (1, EXACT, 0.0)
    assert (parity.parity.first.baseline, parity.parity.first.candidate) == ("8.0000001", "8.0000002")


def test_bits_are_compared_not_values(make_run: MakeRun) -> None:
    left, right = make_run("linen", exact=(0.0, nan)), make_run("nnx", exact=(-0.0, nan))
    parity = compare_losses(left, right)
    assert parity.parity.first is not None
    assert parity.parity.first.step == 0
    assert compare_losses(left, make_run("nnx", exact=(0.0, nan))).parity.first is None


def test_a_side_in_full_precision_is_compared_as_the_other_prints(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.123), exact=(9.0004, 8.1231234))
    parity = compare_losses(left, make_run("nnx", losses=(9.0, 8.123)))
    assert parity.parity.precision == PRINTED
    assert parity.parity.first is None


def test_a_resumed_run_is_compared_over_all_its_steps(make_run: MakeRun) -> None:
    whole = make_run("linen", exact=(9.0, 8.5, 8.0, 7.5))
    resumed = make_run("nnx", losses=(8.0, 7.5), first=2, exact=(9.0, 8.4, 8.0, 7.5))
    parity = compare_losses(whole, resumed)
    assert parity.parity.steps == 4
    assert parity.parity.first is not None
    assert parity.parity.first.step == 1  # before the log of the last attempt begins


# ---------------------------------------------------------------- an injected change is found where it was injected

STEPS = 6


def not_a_tie(value: Decimal) -> bool:
    return (value * 1000) % 1 != Decimal("0.5")  # a tie is rounded to the even neighbour on both sides


true_losses = st.decimals(min_value="0.01", max_value="20", places=7).filter(not_a_tie)


@pytest.mark.flows
@given(
    losses=st.lists(true_losses, min_size=STEPS, max_size=STEPS),
    k=st.integers(0, STEPS - 1),
    sign=st.sampled_from([1, -1]),
    repeats=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    data=st.data(),
)
@example(  # values that straddle rounding: 8.4585001 prints 8.459, and 8.4595001 prints 8.460
    losses=[Decimal("8.4585001")] * STEPS, k=4, sign=1, repeats=(1, 1), data=None
)
@settings(max_examples=150, deadline=None, suppress_health_check=UNHURRIED)
def test_a_thousandth_injected_at_step_k_is_found_at_k(
    losses: list[Decimal], k: int, sign: int, repeats: tuple[int, int], data: Any, make_run: MakeRun
) -> None:
    changed = [*losses[:k], losses[k] + sign * Decimal("0.001"), *losses[k + 1 :]]
    if changed[k] <= 0:
        return
    printed = [[float(f"{loss:.3f}") for loss in side] for side in (losses, changed)]
    left = [make_run("linen", losses=printed[0], seconds=(1.0,) * STEPS, repeat=n) for n in range(repeats[0])]
    # one run of the candidate or all of them: a difference of one run among several is that arm's own variation
    right = [make_run("nnx", losses=printed[1], seconds=(1.0,) * STEPS, repeat=n) for n in range(repeats[1])]
    found = compare_losses(left, right)
    assert found.parity.first is not None
    assert (found.parity.first.step, found.parity.last, found.parity.different) == (k, k, 1)
    assert found.parity.largest_gap == pytest.approx(0.001)
    if repeats[1] > 1:
        odd = data.draw(st.integers(0, repeats[1] - 1)) if data else 0
        one = [run if n == odd else left[0].replace(arm="nnx") for n, run in enumerate(right)]
        within = compare_losses(left, one).within[1]
        assert within is not None
        assert within.step == k


@given(
    losses=st.lists(st.floats(0.015625, 100, width=32), min_size=STEPS, max_size=STEPS),
    k=st.integers(0, STEPS - 1),
    ulps=st.integers(1, 1000),
)
@settings(max_examples=100, deadline=None, suppress_health_check=UNHURRIED)
def test_the_last_bit_injected_at_step_k_is_found_at_k(
    losses: list[float], k: int, ulps: int, make_run: MakeRun
) -> None:
    nudged = float((np.float32(losses[k]).view(np.int32) + np.int32(ulps)).view(np.float32))
    changed = [*losses[:k], nudged, *losses[k + 1 :]]
    first = compare_losses(make_run("linen", exact=losses), make_run("nnx", exact=changed)).parity.first
    assert first is not None
    assert (first.step, first.precision) == (k, EXACT)


# ---------------------------------------------------------------- every repeat counts


def test_a_difference_in_the_last_repeat_alone_is_found(make_run: MakeRun) -> None:
    left = [make_run("linen", repeat=n) for n in range(3)]
    right = [make_run("nnx", repeat=n, losses=(9.0, 8.5, 8.0 + (n == 2), 7.5, 7.25, 7.0)) for n in range(3)]
    found = compare_losses(left, right)
    assert found.within[0] is None
    assert found.within[1] is not None
    assert (found.within[1].step, found.within[1].values) == (2, ("8", "8", "9"))
    assert [place.run for place in found.within[1].places if place] == [0, 1, 2]
    assert found.parity.first is None  # two of its runs equal the baseline: the arm itself varies
    assert found.parity.runs == (3, 3)


def test_arms_that_differ_by_more_than_their_own_runs(make_run: MakeRun) -> None:
    left = [make_run("linen", losses=(9.0, 8.0 + n * 0.001), repeat=n) for n in range(2)]
    near = [make_run("nnx", losses=(9.0, 8.005 + n * 0.001), repeat=n) for n in range(2)]
    far = [make_run("nnx", losses=(9.0, 8.5), repeat=n) for n in range(2)]
    found = compare_losses(left, near)
    assert found.parity.largest_gap == pytest.approx(0.004)  # 8.001 and 8.005
    assert found.varies
    assert compare_losses(left, far).varies  # the runs of one arm are sufficient
    assert not compare_losses(left[:1], far).varies


def test_the_place_of_a_difference_includes_the_run(make_run: MakeRun) -> None:
    left = [make_run("linen", losses=(9.0, 8.0 + 0.1 * n), repeat=n) for n in range(2)]
    found = compare_losses(left, make_run("nnx", losses=(9.0, 9.5)))
    assert found.places[0] == Source(line=101, offset=1010, run=1)  # 8.1 is nearer to 9.5 than 8.0
    assert found.places[1] == Source(line=101, offset=1010, run=0)


@pytest.mark.parametrize(
    ("left", "right", "gap"),
    [
        ([(1.0, nan), (1.0, 2.0)], [(1.0, nan)], None),  # one run of each has NaN: no difference between the arms
        ([(1.0, nan), (1.0, nan)], [(1.0, 2.0)], inf),
        ([(1.0, nan), (1.0, inf)], [(1.0, 2.0)], inf),
        ([(1.0, 2.0), (1.0, 3.0)], [(1.0, nan), (1.0, 2.5)], None),
    ],
)
def test_nan_among_repeats(left: Any, right: Any, gap: float | None, make_run: MakeRun) -> None:
    found = compare_losses(
        [make_run("linen", losses=losses, repeat=n) for n, losses in enumerate(left)],
        [make_run("nnx", losses=losses, repeat=n) for n, losses in enumerate(right)],
    )
    assert found.parity.largest_gap == gap


def test_a_dead_repeat_does_not_hide_later_steps(make_run: MakeRun) -> None:
    dead = make_run("linen", losses=(9.0,), repeat=1, reading={"exit_code": 137})
    found = compare_losses([make_run("linen"), dead], make_run("nnx", losses=(9.0, 8.5, 8.0, 7.5, 7.25, 6.0)))
    assert (found.parity.steps, found.parity.runs) == (6, (1, 1))
    assert found.parity.first is not None
    assert found.parity.first.step == 5


# ---------------------------------------------------------------- other values


def test_every_value_without_noise_is_compared(make_run: MakeRun) -> None:
    extra = pl.DataFrame({"grad_norm": [1.0] * 6, "lr": [0.1] * 6, "tflops": [1.0] * 6, "note": ["x"] * 6})

    def run(arm: str, norm: float = 1.0) -> RunRecord:
        made = make_run(arm, exact=True)
        assert made.metrics is not None
        values = extra.with_columns(grad_norm=pl.Series([1.0] * 5 + [norm]))
        return made.replace(metrics=pl.concat([made.metrics, values], how="horizontal"))

    def arms(norm: float) -> tuple[ArmRuns, ArmRuns]:
        return (
            ArmRuns(name="linen", label="linen", runs=(run("linen"),)),
            ArmRuns(name="nnx", label="nnx", runs=(run("nnx", norm),)),
        )

    assert shared_metrics(arms(1.0)) == ["loss", "grad_norm", "lr"]  # clocks and texts are not compared
    first = compare_metric(arms(1.0000001), "grad_norm").parity.first
    assert first is not None
    assert (first.metric, first.step) == ("grad_norm", 5)


@pytest.mark.parametrize(
    ("names", "shared"),
    [
        (["step_time_s", "tokens_per_s_per_device", "mfu", "memory_gib", "elapsed_time_per_step"], False),
        (["elapsed time per iteration (ms)", "samples per second", "power per GPU (W/GPU)"], False),  # Megatron's
        (["energy per GPU (J/iter/GPU)", "TFLOPs", "hip mem usage"], False),
        (["grad norm", "params norm", "loss scale", "consumed samples", "number of skipped iterations"], True),
        (["lm_loss", "moe_lb_loss", "learning_rate", "reward_accuracy"], True),  # MaxText's
        (["perplexity", "lm loss PPL"], False),  # exp(loss), and the loss is compared
    ],
)
def test_clock_values_are_not_compared(names: list[str], shared: bool, make_run: MakeRun) -> None:
    runs = [make_run(arm, columns={name: [1.0] * 6 for name in names}) for arm in ("linen", "nnx")]
    arms = (ArmRuns(name="linen", label="", runs=(runs[0],)), ArmRuns(name="nnx", label="", runs=(runs[1],)))
    assert set(names) & set(shared_metrics(arms)) == (set(names) if shared else set())


def test_exponents_have_the_precision_of_their_digits(make_run: MakeRun) -> None:
    """Megatron prints 1.090931E+01: six decimals of the mantissa, five of the value."""
    megatron = {"format": "megatron"}
    left = make_run("linen", losses=(10.90931, 0.9876543), reading=megatron)
    found = compare_losses(left, make_run("nnx", losses=(10.90932, 0.9876543), reading=megatron))
    assert found.unit == pytest.approx(1e-5)


# ---------------------------------------------------------------- the floors

ARRAYS = {"params/a": "01", "params/b": "02"}
PROGRAM: dict[str, Any] = {
    "stablehlo_sha256": "f00d" * 16,
    "initial_state": {"step": -1, "digest": "start"},
    "state": {"step": 5, "digest": "end", "arrays": ARRAYS},
    "cross_restore": {"holds": True, "evidence": "its checkpoint gives the same bits"},
}


@pytest.fixture
def floors(make_run: MakeRun, arm_of: ArmOf) -> Callable[..., Mapping[str, Floor]]:
    """The floors of a baseline that proved everything and a candidate with the given differences."""

    def build(exact: Any = True, metrics: Any = None, **changes: Any) -> Mapping[str, Floor]:
        left = make_run("linen", exact=True, record={"program": PROGRAM})
        right = make_run("nnx", exact=exact, record={"program": PROGRAM | changes})
        if metrics is not None:
            right = right.replace(metrics=metrics(right.metrics))
        return {floor.name: floor for floor in floors_of((arm_of(left), arm_of(right)))}

    return build


def test_all_three_floors_hold(floors: Callable[..., Mapping[str, Floor]], wording: Wording) -> None:
    found = floors()
    assert [floor.holds for floor in found.values()] == [True, True, True]
    assert list(found) == ["same program", "same bits", "same checkpoint"]
    assert " 6 steps, and all 2 arrays" in found["same bits"].evidence
    for floor in found.values():
        wording("reasons", floor.evidence)


@pytest.mark.parametrize(
    ("changes", "name", "holds", "evidence"),
    [
        ({"stablehlo_sha256": "beef" * 16}, "same program", False, "f00df00df00d… and beefbeefbeef…"),
        ({"stablehlo_sha256": None}, "same program", None, "ended before its train step was lowered"),
        ({"initial_state": {"digest": "other"}}, "same bits", False, "start from different weights"),
        ({"initial_state": None}, "same bits", None, "no digest of its initial or final state"),
        ({"state": None}, "same bits", None, "no digest of its initial or final state"),
        ({"exact": (9.0, 8.5, 8.0, 7.5, 7.25, 7.0000001)}, "same bits", False, "loss differs at step 5: 7.0 and 7.00"),
        ({"exact": (9.0, 8.5)}, "same bits", None, "did not train the same steps"),
        (
            {"state": {"arrays": ARRAYS | {"params/b": "03"}}},
            "same bits",
            False,
            "1 of 2 arrays differ after the last step, first params/b",
        ),
        ({"state": {"arrays": {"params/a": "01"}}}, "same bits", False, "1 of 2 arrays differ"),
        (
            {"cross_restore": {"holds": False, "evidence": "step 3: loss 1 here, 2 there"}},
            "same checkpoint",
            False,
            "2",
        ),
        ({"cross_restore": {"holds": None, "evidence": "no checkpoint"}}, "same checkpoint", True, "same bits"),
    ],
)
def test_a_failed_floor_has_a_reason(
    changes: dict[str, Any], name: str, holds: bool | None, evidence: str, floors: Callable[..., Mapping[str, Floor]]
) -> None:
    floor = floors(**changes)[name]
    assert floor.holds is holds
    assert evidence in floor.evidence


def test_gradients_count_too(floors: Callable[..., Mapping[str, Floor]]) -> None:
    def without(frame: Any) -> Any:
        return frame.with_columns(grad_norm=1.0)

    assert floors(metrics=without)["same bits"].holds is True  # only one arm wrote it: nothing to compare


def test_a_checkpoint_without_a_cross_restore_is_unknown(make_run: MakeRun, arm_of: ArmOf, wording: Wording) -> None:
    alone = PROGRAM | {"cross_restore": None}
    left, right = make_run("linen", record={"program": alone}), make_run("nnx", record={"program": alone})
    (floor,) = [floor for floor in floors_of((arm_of(left), arm_of(right))) if floor.name == "same checkpoint"]
    assert floor.holds is None
    wording("reasons", floor.evidence)


def test_any_repeat_may_contain_the_proof_or_the_failure(make_run: MakeRun, arm_of: ArmOf) -> None:
    none = make_run("linen", record={"program": PROGRAM | {"cross_restore": None}})
    good = make_run("nnx", record={"program": PROGRAM})
    bad = make_run("nnx", record={"program": {"cross_restore": {"holds": False, "evidence": "lost"}}})
    floors = {floor.name: floor for floor in floors_of((arm_of(none), arm_of(good, bad)))}
    assert floors["same checkpoint"].holds is False
    assert floors["same checkpoint"].evidence == "lost"


def test_ingested_logs_have_no_floors(make_run: MakeRun, arm_of: ArmOf) -> None:
    assert floors_of((arm_of(make_run("linen")), arm_of(make_run("nnx")))) == []


def test_floors_include_every_repeat(make_run: MakeRun, arm_of: ArmOf, wording: Wording) -> None:
    other = PROGRAM | {"stablehlo_sha256": "beef" * 16}
    good = [make_run(arm, exact=True, record={"program": PROGRAM}) for arm in ("linen", "linen", "nnx")]
    odd = make_run("nnx", exact=(9.0, 8.5, 8.0, 7.5, 7.25, 7.1), record={"program": other})
    floors = {floor.name: floor for floor in floors_of((arm_of(*good[:2]), arm_of(good[2], odd)))}
    assert floors["same program"].holds is False
    wording("reasons", floors["same program"].evidence)
    assert floors["same bits"].holds is False
    assert "7.0 and 7.1 (" in floors["same bits"].evidence
    wording("reasons", floors["same bits"].evidence)
    whole = {floor.name: floor for floor in floors_of((arm_of(*good[:2]), arm_of(good[2])))}
    assert whole["same program"].holds is True
    assert whole["same bits"].holds is True
    assert whole["same bits"].evidence.endswith(" all 3 runs")
    wording("reasons", whole["same bits"].evidence)
