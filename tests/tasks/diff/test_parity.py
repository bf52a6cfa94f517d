"""Where losses stop being equal, bit for bit or as printed, and the three floors."""

from collections.abc import Callable, Mapping
from math import inf, nan
from typing import Any

import pytest

from tasks.diff.arms import ArmRuns
from tasks.diff.floors import floors_of
from tasks.diff.parity import EXACT, compare_losses
from tasks.records import Floor, RunRecord

type MakeRun = Callable[..., RunRecord]
type ArmOf = Callable[..., ArmRuns]

PRINTED = "printed precision (3 decimals)"


# ---------------------------------------------------------------- as printed


def test_equal_prints_are_equal_to_printed_precision(make_run: MakeRun) -> None:
    parity = compare_losses(make_run("linen"), make_run("nnx"))
    assert (parity.common, parity.precision, parity.first, parity.worst) == (6, PRINTED, None, None)
    assert parity.unit == 0.001


def test_the_first_difference_and_the_largest_are_both_found(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.459, 7.5, 7.0))
    right = make_run("nnx", losses=(9.0, 8.458, 7.7, 7.0))
    parity = compare_losses(left, right)
    assert parity.first is not None
    assert (parity.first.step, parity.first.baseline, parity.first.candidate) == (1, "8.459", "8.458")
    assert parity.worst == (2, 7.5, 7.7)


def test_only_common_steps_count(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.0, 7.0))
    right = make_run("nnx", losses=(8.0, 7.0, 6.0), first=1)
    assert compare_losses(left, right).common == 2
    assert compare_losses(left, right).first is None
    assert compare_losses(left, make_run("nnx", losses=(1.0,), first=9)).common == 0


def test_a_step_done_twice_counts_as_it_was_last(make_run: MakeRun) -> None:
    again = make_run("nnx", losses=(9.0, 1.0, 8.0, 7.0), columns={"step": [0, 1, 1, 2]})
    assert compare_losses(make_run("linen", losses=(9.0, 8.0, 7.0)), again).first is None


def test_logs_that_print_more_are_held_to_more(make_run: MakeRun) -> None:
    left, right = make_run("linen", losses=(10.90931, 9.0)), make_run("nnx", losses=(10.90932, 9.0))
    parity = compare_losses(left, right)
    assert parity.first is not None
    assert (parity.first.baseline, parity.first.candidate) == ("10.90931", "10.90932")
    assert parity.unit == pytest.approx(1e-5)
    assert parity.precision == "printed precision (5 decimals)"


@pytest.mark.parametrize(
    ("left", "right", "first"),
    [((1.0, nan), (1.0, nan), None), ((1.0, nan), (1.0, 0.5), 1), ((1.0, 0.5), (1.0, inf), 1), ((inf,), (inf,), None)],
)
def test_what_is_no_number(left: Any, right: Any, first: int | None, make_run: MakeRun) -> None:
    parity = compare_losses(make_run("linen", losses=left), make_run("nnx", losses=right))
    assert (parity.first.step if parity.first else None) == first


def test_a_number_lost_is_the_largest_difference(make_run: MakeRun) -> None:
    left, right = make_run("linen", losses=(9.0, 8.0, 7.0)), make_run("nnx", losses=(5.0, nan, 1.0))
    worst = compare_losses(left, right).worst
    assert worst is not None
    assert worst[0] == 1


def test_steps_without_a_loss_are_left_out(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(None, 8.0, 7.0))
    assert compare_losses(left, make_run("nnx", losses=(9.0, 8.0, 7.0))).common == 2


# ---------------------------------------------------------------- bit for bit


def test_full_precision_sees_what_printing_hides(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.0), exact=(9.0, 8.0000001))
    right = make_run("nnx", losses=(9.0, 8.0), exact=(9.0, 8.0000002))
    parity = compare_losses(left, right)
    assert parity.first is not None
    assert (parity.first.step, parity.precision, parity.unit) == (1, EXACT, 0.0)
    assert (parity.first.baseline, parity.first.candidate) == ("8.0000001", "8.0000002")


def test_bits_are_compared_not_values(make_run: MakeRun) -> None:
    left, right = make_run("linen", exact=(0.0, nan)), make_run("nnx", exact=(-0.0, nan))
    parity = compare_losses(left, right)
    assert parity.first is not None
    assert parity.first.step == 0
    assert compare_losses(left, make_run("nnx", exact=(0.0, nan))).first is None


def test_one_side_in_full_precision_is_held_to_what_the_other_prints(make_run: MakeRun) -> None:
    left = make_run("linen", losses=(9.0, 8.123), exact=(9.0004, 8.1231234))
    parity = compare_losses(left, make_run("nnx", losses=(9.0, 8.123)))
    assert parity.precision == PRINTED
    assert parity.first is None


def test_a_resumed_run_is_compared_over_all_its_steps(make_run: MakeRun) -> None:
    whole = make_run("linen", exact=(9.0, 8.5, 8.0, 7.5))
    resumed = make_run("nnx", losses=(8.0, 7.5), first=2, exact=(9.0, 8.4, 8.0, 7.5))
    parity = compare_losses(whole, resumed)
    assert parity.common == 4
    assert parity.first is not None
    assert parity.first.step == 1  # before the log of the last attempt begins


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
    """The floors of a baseline that proved everything and a candidate that differs in what is given."""

    def build(exact: Any = True, metrics: Any = None, **changes: Any) -> Mapping[str, Floor]:
        left = make_run("linen", exact=True, record={"program": PROGRAM})
        right = make_run("nnx", exact=exact, record={"program": PROGRAM | changes})
        if metrics is not None:
            right = right.model_copy(update={"metrics": metrics(right.metrics)})
        return {floor.name: floor for floor in floors_of(arm_of(left), arm_of(right))}

    return build


def test_all_three_floors_hold(floors: Callable[..., Mapping[str, Floor]]) -> None:
    found = floors()
    assert [floor.holds for floor in found.values()] == [True, True, True]
    assert list(found) == ["same program", "same bits", "same checkpoint"]
    assert "loss of 6 steps, and all 2 arrays of the state" in found["same bits"].evidence


@pytest.mark.parametrize(
    ("changes", "name", "holds", "evidence"),
    [
        ({"stablehlo_sha256": "beef" * 16}, "same program", False, "f00df00df00d… and beefbeefbeef…"),
        ({"stablehlo_sha256": None}, "same program", None, "ended before its train step was lowered"),
        ({"initial_state": {"digest": "other"}}, "same bits", False, "start from different weights"),
        ({"initial_state": None}, "same bits", None, "ended before its final state"),
        ({"state": None}, "same bits", None, "ended before its final state"),
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
def test_a_floor_that_does_not_hold_says_why(
    changes: dict[str, Any], name: str, holds: bool | None, evidence: str, floors: Callable[..., Mapping[str, Floor]]
) -> None:
    floor = floors(**changes)[name]
    assert floor.holds is holds
    assert evidence in floor.evidence


def test_gradients_count_too(floors: Callable[..., Mapping[str, Floor]]) -> None:
    def without(frame: Any) -> Any:
        return frame.with_columns(grad_norm=1.0)

    assert floors(metrics=without)["same bits"].holds is True  # only one arm wrote it: nothing to compare


def test_a_checkpoint_that_nobody_crossed_is_not_known(make_run: MakeRun, arm_of: ArmOf) -> None:
    alone = PROGRAM | {"cross_restore": None}
    left, right = make_run("linen", record={"program": alone}), make_run("nnx", record={"program": alone})
    (floor,) = [floor for floor in floors_of(arm_of(left), arm_of(right)) if floor.name == "same checkpoint"]
    assert floor.holds is None
    assert floor.evidence == "no arm tried to restore the other's checkpoint"


def test_any_repeat_may_bring_the_proof_or_the_failure(make_run: MakeRun, arm_of: ArmOf) -> None:
    none = make_run("linen", record={"program": PROGRAM | {"cross_restore": None}})
    good = make_run("nnx", record={"program": PROGRAM})
    bad = make_run("nnx", record={"program": {"cross_restore": {"holds": False, "evidence": "lost"}}})
    floors = {floor.name: floor for floor in floors_of(arm_of(none), arm_of(good, bad))}
    assert floors["same checkpoint"].holds is False
    assert floors["same checkpoint"].evidence == "lost"


def test_logs_from_elsewhere_have_no_floors(make_run: MakeRun, arm_of: ArmOf) -> None:
    assert floors_of(arm_of(make_run("linen")), arm_of(make_run("nnx"))) == []
