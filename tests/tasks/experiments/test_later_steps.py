"""What two hosts give their functions in many steps, while heavy programs return zeros."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maxview_probe.observe.observation_files import LATER
from tasks.experiments.later_steps import compare_calls
from tasks.observe.recorder import prepare_recorder

STEPS = [[["ema", 5, [0.9]], ["step", 7, []]] for _ in range(30)]


def changed(at: int, call: list[Any]) -> list[Any]:
    """Return STEPS with another first call in a step."""
    return [[call, step[1]] if n == at else step for n, step in enumerate(STEPS)]


def test_equal_calls_are_counted_up_to_the_shorter_arm() -> None:
    found = compare_calls("step", STEPS, STEPS[:25], recorded=20)
    assert (found.steps, found.first, found.problem) == (25, None, "")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["ema", 6, [0.8]], ("`ema`", "0.9 → 0.8")),
        (["ema", 6, [0.9]], ("`ema`", "other arrays")),
        (["mean", 5, [0.9]], ("`mean` is called in place of `ema`",)),
    ],
)
def test_the_first_call_that_differs_is_named(call: list[Any], words: tuple[str, ...]) -> None:
    found = compare_calls("step", STEPS, changed(24, call), recorded=20)
    assert (found.first, found.steps) == (24, 30)
    assert all(word in found.sentence for word in ("call 24 of `step`", *words))


def test_a_call_more_is_named() -> None:
    right = [[*step, ["save", 1, []]] if n == 24 else step for n, step in enumerate(STEPS)]
    assert "`save` is called 1 time more" in compare_calls("step", STEPS, right, recorded=20).sentence


def test_a_difference_in_recorded_steps_tells_nothing() -> None:
    """There the results were real, and both arms equal."""
    assert compare_calls("step", STEPS, changed(3, ["ema", 6, [0.8]]), recorded=20).problem


TRAINER = """
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def step(w, x):
    loss, g = jax.value_and_grad(lambda w: jnp.sum((x @ w) ** 2))(w)
    return w - 0.1 * g, loss

@jax.jit
def ema(mean, w, decay):
    return decay * mean + (1 - decay) * w

w = mean = jnp.ones((4, 4))
for n in range(400):
    w, loss = step(w, np.full((2, 4), n, np.float32))
    assert float(loss) == 0
    mean = ema(mean, w, 0.9 if n < 150 else 0.8)
"""


@pytest.mark.flows
def test_a_trainers_calls_of_many_steps_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINER)
    own = prepare_recorder(tmp_path, {}, later_steps=300)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **own}
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    found = json.loads((tmp_path / LATER).read_text())
    assert (found["step"], len(found["steps"])) == ("step", 300)
    decays = [calls[0][2][0] for calls in found["steps"][1:]]
    assert decays == pytest.approx([0.9] * 150 + [0.8] * 149)
    batches = [calls[-1][1] for calls in found["steps"]]
    assert len(set(batches)) == 300  # each step has a batch of its own
