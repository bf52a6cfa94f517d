"""The figures of two steps in float64: the worst layer of stacked gradients, and the power of the comparison."""

from typing import Any

import numpy as np
import pytest

from maxview_probe.evaluate.compare_function import find_typical_gaps
from tasks.diff.judge.decide_by_function import CURVE_LIMIT
from tasks.experiments.function_figures import summarise_function

LAYERS = 32


def measured(**more: Any) -> dict[str, Any]:
    """Equal functions; of one gradient's 32 layers the last rounds three times worse."""
    errors = [1e-3] * LAYERS
    total = 1e-3 * LAYERS**0.5
    worse = [*errors[1:], 3e-3]
    row = {
        "role": "optimizer", "meaning": "mu.layers.wi", "size": 512 * LAYERS, "type": "f32", "norm": LAYERS**0.5,
        "as_run": total, "float64": 0.0, "rounding": [total, 1e-3 * (LAYERS + 8) ** 0.5],
        "layers": {"norm": [1.0] * LAYERS, "rounding": [errors, worse]},
    }  # fmt: skip
    return {"states": [{"state": "step 0", "results": [row]}], "curves": {}, **more}


def test_one_of_many_stacked_layers_that_rounds_worse_is_named() -> None:
    found = summarise_function(measured())
    (gradients,) = found.rounding
    assert gradients.ratio < 1.12  # of the whole array it does not show
    assert found.worst_gradient is not None
    assert (found.worst_gradient.quantity, found.worst_gradient.ratio) == (
        "layers.wi, layer 31",
        pytest.approx(3.0),
    )


@pytest.mark.parametrize(("factors", "called"), [((2.5, 0.7, 1.6, 1.9, 1.1), False), ((2.5, 1.9, 1.6, 1.9, 1.7), True)])
def test_a_gradient_rounds_worse_if_it_does_in_every_state(factors: tuple[float, ...], called: bool) -> None:
    """In one state the last bit of a token can choose other experts: its gradients then differ in either arm."""
    states = [
        {"state": name, "results": [
            {"role": "optimizer", "meaning": "mu.gate", "size": 512, "type": "bf16", "norm": 1.0, "as_run": 0.0,
             "float64": 0.0, "rounding": [1e-3, factor * 1e-3]}]}
        for name, factor in zip(("step 0", "step 5", "step 10", "step 15", "late"), factors, strict=True)
    ]  # fmt: skip
    worst = summarise_function({"states": states, "curves": {}}).worst_gradient
    assert (worst is not None and worst.ratio == pytest.approx(1.9)) is called


def test_tokens_that_choose_other_experts_do_not_hide_a_gradient_that_rounds_worse() -> None:
    """They make most of the whole error in both arms, and none of the typical one."""
    row = {
        "role": "optimizer", "meaning": "mu.experts.wi", "size": 512, "type": "bf16", "norm": 512**0.5, "as_run": 1.0,
        "float64": 0.0, "rounding": [1.0, 1.1], "typical": [1e-3, 3e-3],
    }  # fmt: skip
    worst = summarise_function({"states": [{"state": "step 0", "results": [row]}], "curves": {}}).worst_gradient
    assert worst is not None
    assert (worst.baseline, worst.ratio) == (pytest.approx(1e-3), pytest.approx(3.0))


def test_the_typical_gap_is_that_of_elements_which_differ() -> None:
    exact = np.zeros(8)
    ours, theirs = exact.copy(), exact.copy()
    ours[:5] = (1e-3, -1e-3, 1e-3, 1.0, 0.0)
    theirs[:5] = (2e-3, 2e-3, 2e-3, -1.0, 2e-3)
    assert find_typical_gaps((ours, exact), (theirs, exact)) == [1e-3, 2e-3]
    assert find_typical_gaps((exact, exact), (exact, exact)) == [0.0, 0.0]


def test_the_power_is_that_of_a_longer_update() -> None:
    """1e-12 of a weight is 1e-9 of an update of a thousandth; a loss that moves by 1 for 1 % must move by 4 × 0.1."""
    curves = {"baseline": [0.0, 0.0], "candidate": [0.0, 0.0], "perturbed 0": [0.1, -0.1], "longer": [1.0, -1.0]}
    found = summarise_function(measured(updates=[{"norm": 10.0, "update": 0.0101}], curves=curves)).power
    assert found is not None
    assert found.float64 == pytest.approx(1e-9)
    assert found.loss == pytest.approx(0.01 * CURVE_LIMIT * 0.1)


def test_no_update_has_no_power() -> None:
    assert summarise_function(measured(updates=[{"norm": 1.0, "update": 0.0}])).power is None
