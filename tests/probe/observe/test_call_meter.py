"""The noted calls of trainers whose log nobody can read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.observe.recorder import prepare_recorder

pytestmark = pytest.mark.flows

TRAINER = """
import atexit, time
import jax, jax.numpy as jnp

weights = {"a": jnp.ones((8, 16)), "b": jnp.ones((16, 1))}
scale = jnp.float32(2.0)
x = jnp.arange(32.0).reshape(4, 8)

def loss_of(weights, x):
    return jnp.mean((jnp.tanh(x @ weights["a"]) @ weights["b"]) ** 2)

def update(weights, x):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x)
    return jax.tree.map(lambda w, g: w - 0.001 * g, weights, gradient), loss

MORE
atexit.register(lambda: print("cleaned up"))
for n in range(6):
    time.sleep(0.05)
    LOOP
print("all done")
"""


def meter(folder: Path, more: str, loop: str, **settings: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the noted calls of a trainer, and its output. more: its functions. loop: a line."""
    (folder / "train.py").write_text(TRAINER.replace("MORE", more).replace("LOOP", loop))
    (folder / "start").mkdir()
    own = prepare_recorder(folder / "start", {}, meter=True, **settings)
    words = [sys.executable, str(folder / "train.py")]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **own}
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    text = (folder / "start" / "calls.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()], done.stdout


FORMS = {
    "a tuple": ("step = jax.jit(update)", "weights, value = step(weights, x)", {"loss"}),
    "names": (
        "step = jax.jit(lambda w, x: (update(w, x)[0], {'train/total_loss': update(w, x)[1], 'norm': jnp.sum(x)}))",
        "weights, values = step(weights, x)", {"loss", "norm"},
    ),
    "compiled ahead": (
        "step = jax.jit(update).lower(weights, x).compile()", "weights, value = step(weights, x)", {"loss"},
    ),
    # a float that the step takes and returns is its state; the counter is no float
    "scalars of the state": (
        "step = jax.jit(lambda s, x: ((update(s[0], x)[0], s[1] * 2, s[2] + 1), update(s[0], x)[1]))\n"
        "state = (weights, scale, jnp.int32(0))",
        "state, value = step(state, x)", {"loss"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_call_is_noted_with_its_time_and_scalars(tmp_path: Path, form: str) -> None:
    more, loop, names = FORMS[form]
    rows, output = meter(tmp_path, more, loop)
    assert [row["step"] for row in rows] == list(range(6))
    assert {*rows[0]} == {"step", "step_time_s", "host_memory_b"} | names
    assert rows[0]["loss"] > rows[-1]["loss"] > 0
    assert all(0.05 < row["step_time_s"] < 5 for row in rows[1:])
    assert output.endswith("all done\ncleaned up\n")


@pytest.mark.parametrize("form", ["a tuple", "compiled ahead"])
def test_a_run_is_ended_after_its_steps_and_cleans_up(tmp_path: Path, form: str) -> None:
    more, loop, _ = FORMS[form]
    rows, output = meter(tmp_path, more, loop, end_after=3)
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert output == "cleaned up\n"
