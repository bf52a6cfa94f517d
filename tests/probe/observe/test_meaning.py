"""Arguments with equal meanings in Linen's and NNX's steps, in MaxText's and in our programs."""

import pytest

from maxview_probe.observe.meaning import meaning_of, meanings_of


@pytest.mark.parametrize(
    ("names", "meaning"),
    [
        (
            (
                "state.params['params']['decoder']['w']",
                "state['model']['decoder']['w'].value",
                "state['model']['decoder']['pipeline_module']['w'].value",
            ),
            ("parameter", "decoder.w"),
        ),
        (
            ("arrays.params['params']['w']", "arrays['model']['w'].value", "params['w']"),
            ("parameter", "w"),
        ),
        (
            (
                "state.opt_state[0].mu['params']['w']",
                "state['optimizer']['opt_state'][0]['mu']['w'].value",
                "state.opt_state[1].inner_state.mu['params']['w']",
            ),
            ("optimizer", "mu.w"),
        ),
        (("opt_state[0][1]", "state.opt_state[0][1]"), ("optimizer", "opt_state.0.1")),  # stax
        # the optimizer's state under the name of a model; a parameter of the name `mu` stays one
        (("state['model'][0].mu['v']", "opt[0].mu['v']", "moments[1][0].mu['v']"), ("optimizer", "mu.v")),
        (("params['mu']['v']",), ("parameter", "mu.v")),
        (("state.opt_state[0].count", "state.opt_state[1].inner_state.count"), ("counter", "count")),
        (("state.step", "state['optimizer']['step'].value", "state['step']"), ("counter", "step")),
        (("data['inputs']", "batch.inputs", "batch['inputs']"), ("data", "inputs")),
        (("x",), ("data", "x")),
        (("dropout_rng",), ("random numbers", "dropout_rng")),
    ],
)
def test_one_meaning_of_several_names(names: tuple[str, ...], meaning: tuple[str, str]) -> None:
    assert {meaning_of(name) for name in names} == {meaning}


def test_random_streams_are_not_weights() -> None:
    assert meaning_of("state['model']['decoder']['rngs']['dropout']['key'].value")[0] == "random numbers"


def test_equal_meanings_are_numbered_by_order() -> None:
    assert meanings_of(["state.opt_state[0].count", "state.opt_state[2].count"]) == [
        ("counter", "count"),
        ("counter", "count #2"),
    ]
