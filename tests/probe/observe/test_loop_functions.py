"""The recorder in trainers of a few lines: what writes the state beside the recorded step."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tasks.observe.ran_lines import read_ran_lines
from tasks.observe.recorder import prepare_recorder

pytestmark = pytest.mark.long

TRAINER = """
import functools, sys
import jax, jax.numpy as jnp, optax

params = {"params": {"w1": jax.random.normal(jax.random.key(0), (16, 32)), "w2": jnp.ones((32, 4))}}
optimizer = optax.adamw(1e-2)

def loss(params, x):
    return jnp.mean((jnp.tanh(x @ params["params"]["w1"]) @ params["params"]["w2"] - x[:, :4]) ** 2)

def update(params, opt_state, gradients):
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state

@functools.partial(jax.jit, static_argnames="scale")
def train_step(params, opt_state, x, scale=1.0, rate=None):
    value, gradients = jax.value_and_grad(loss)(params, x)
    if rate is not None:
        factor = jax.pure_callback(rate, jax.ShapeDtypeStruct((), jnp.float32))
        gradients = jax.tree.map(lambda one: one * factor, gradients)
    params, opt_state = update(params, opt_state, jax.tree.map(lambda one: one * scale, gradients))
    return params, opt_state, value

evaluate = jax.jit(lambda params, x: (params, loss(params, x)))
jitted_update, gradients_of = jax.jit(update), jax.jit(jax.value_and_grad(loss))
average = jax.jit(lambda mean, params: jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, mean, params))
noise = jax.jit(lambda key: jax.random.split(key))

@functools.partial(jax.jit, static_argnames="reads")
def counting_step(params, opt_state, total, x, reads=False):
    params, opt_state, value = train_step(params, opt_state, x)
    params = jax.tree.map(lambda one: one - 1e-3 * total, params) if reads else params
    return params, opt_state, total + value

opt_state, mean, key = optimizer.init(params), params, jax.random.key(1)
total = jnp.zeros(())
for n in range(8):
    x = jax.random.normal(jax.random.key(n), (8, 16))
    LOOP
"""
PLAIN = "params, opt_state, value = train_step(params, opt_state, x)"
COUNTING = "params, opt_state, total = counting_step(params, opt_state, total"


def record(tmp_path: Path, loop: str, shapes: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return the record of a trainer's loop. loop: its lines, separated by `;`. shapes: in place of others."""
    script = tmp_path / "train.py"
    text = TRAINER
    for old, new in shapes.items():
        text = text.replace(old, new)
    script.write_text(text.replace("LOOP", "\n    ".join(loop.split("; "))), encoding="utf-8")
    folder = tmp_path / "observed"
    folder.mkdir()
    own = prepare_recorder(folder, {}, observe=True, batches=6, root=str(tmp_path), changed=["train.py"])
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **own}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, capture_output=True)
    return dict(json.loads((folder / "observation.json").read_text()))


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        (f"{PLAIN}; key, _ = noise(key); held = evaluate(params, x)", {}),
        (f"{PLAIN}; params = jax.device_put(params, jax.devices()[0])", {}),
        ("value, g = gradients_of(params, x); params, opt_state = jitted_update(params, opt_state, g)",
         {"writers": {"update": 6}}),  # two weights, two moments of each, and the optimizer's counter: 5 are floats
        ("value, g = gradients_of(params, x); params, opt_state = update(params, opt_state, g)", {"outside": 2}),
        (f"{PLAIN}; mean = average(mean, params)", {"writers": {"<lambda>": 2}}),
        (f"{PLAIN}; mean = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, mean, params)", {"beside": 2}),
        (f"{PLAIN}; opt_state = opt_state if n % 3 else (opt_state[0]._replace(count=jnp.int32(0)), *opt_state[1:])",
         {"outside": 1}),
        (f"{PLAIN}; params = jax.tree.map(lambda one: one * 0.999, params)", {"outside": 2}),
        # normalised, and set to zero
        (f"{PLAIN}; params = jax.tree.map(lambda one: (one - one.mean()) / one.std(), params)", {"outside": 2}),
        (f"{PLAIN}; params['params']['w2'] = jnp.zeros((32, 4))", {"outside": 1}),
        # a metric's sum that the host resets; it is a part of the function if the weights read it
        (f"{COUNTING}, x); total = total if n % 3 else jnp.zeros(())", {}),
        (f"{COUNTING}, x, True); total = total if n % 3 else jnp.zeros(())", {"outside": 1}),
        ("params, opt_state, value = train_step(params, opt_state, x, scale=1.0 if n < 4 else 0.5)",
         {"programs": 2, "changed_at": [4, 5]}),
    ],
)  # fmt: skip
def test_functions_and_a_host_that_write_the_state_are_found(tmp_path: Path, loop: str, found: dict[str, Any]) -> None:
    silent = {"writers": {}, "outside": 0, "beside": 0, "programs": 1, "changed_at": [], "callbacks": {}}
    loop_record = record(tmp_path, loop)["loop"]
    expected = silent | found
    if "update" in found.get("writers", {}):
        expected["writers"] = {"update": loop_record["writers"]["update"]}
        assert loop_record["writers"]["update"] >= 5
    assert {name: loop_record[name] for name in silent} == expected
    assert loop_record["calls"] == 6


def test_an_evaluation_that_returns_its_model_is_not_the_step(tmp_path: Path) -> None:
    found = record(tmp_path, f"params, _ = evaluate(params, x); {PLAIN}")
    assert found["step"] == "train_step"
    assert found["loop"]["calls"] == 6
    assert min(found["front_end"]) > 0
    assert len(found["front_end"]) == 5  # this small step is traced and lowered in milliseconds


def test_a_function_has_the_digest_of_its_program_and_none_if_it_has_several(tmp_path: Path) -> None:
    digests = record(tmp_path, f"{PLAIN}; mean = average(mean, params); key, _ = noise(key)")["loop"]["digests"]
    assert len(digests["<lambda>"]) == 0  # two functions of this name, with two programs


def test_the_lines_that_ran_and_the_ways_of_conditions_are_noted(tmp_path: Path) -> None:
    record(tmp_path, f"{PLAIN}; value = value * (2 if n > 20 else 1); y = 1 if n % 2 else 0")
    ran = read_ran_lines([tmp_path / "observed"])
    text = (tmp_path / "train.py").read_text().splitlines()
    number = {part: next(n for n, line in enumerate(text, start=1) if part in line) for part in ("n > 20", "n % 2")}
    ways = dict(ran.ways["train.py"])
    assert ran.problem == ""
    assert ways[number["n > 20"]] == {False}
    assert ways[number["n % 2"]] == {True, False}
    callback = next(n for n, line in enumerate(text, start=1) if "factor = jax.pure_callback" in line)
    assert callback not in ran.lines["train.py"]
    assert callback - 2 in ran.lines["train.py"]
    # the host's loop has its own lines, and neither traced ones nor those before the first step
    before = next(n for n, line in enumerate(text, start=1) if line.startswith("opt_state, mean, key"))
    assert {number["n > 20"], number["n % 2"]} <= ran.host["train.py"]
    assert ran.host["train.py"].isdisjoint({callback - 2, before})


def test_a_batch_with_the_shape_of_a_weight_is_no_state(tmp_path: Path) -> None:
    square = {"(16, 32)": "(16, 16)", "(32, 4)": "(16, 4)", "(8, 16)": "(16, 16)"}
    assert record(tmp_path, PLAIN, square)["loop"]["outside"] == 0
