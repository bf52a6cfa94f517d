"""Two recorded steps at states that no run reached: branches on a step's number, a norm, a batch; and equal ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from maxview_probe.evaluate.compare_function import FunctionSettings, compare_steps
from maxview_probe.observe import bits
from maxview_probe.observe import observation_files as files
from tasks.experiments.function_figures import summarise_function
from tasks.records.function import FunctionComparison

pytestmark = pytest.mark.long

type Tree = dict[str, Any]
STEPS = 20


@pytest.fixture(autouse=True)
def float64() -> Any:
    with jax.enable_x64(True):
        yield


def forward(params: Tree, tokens: Any) -> Any:
    x = params["embed"][tokens]
    x = x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
    return jnp.tanh(x @ params["w"]) @ params["out"]


def make_step(change: Callable[[Tree], Tree] | None = None, scale: Callable[[Any, Any, Any], Any] | None = None) -> Any:
    """Return a step of momentum SGD. scale: (count, norm of the gradient, loss) → factor of the rate."""

    def train_step(state: Tree, batch: Tree) -> Any:
        def loss_of(params: Tree) -> Any:
            logits = forward(params, batch["inputs"])
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["targets"][..., None], -1)
            return -picked.mean()

        loss, gradients = jax.value_and_grad(loss_of)(state["params"])
        norm = jnp.sqrt(sum((one * one).sum() for one in jax.tree.leaves(gradients)))
        rate = 0.1 * jnp.asarray(scale(state["step"], norm, loss) if scale else 1.0, jnp.float32)
        mu = jax.tree.map(lambda m, g: 0.9 * m + g, state["opt_state"]["mu"], gradients)
        params = jax.tree.map(lambda p, m: (p - rate * m).astype(p.dtype), state["params"], mu)
        params = change(params) if change else params
        new = {"params": params, "opt_state": {"mu": mu}, "step": state["step"] + 1}
        return new, {"loss": loss}

    return train_step


def record(step: Any, folder: Path) -> str:
    """Record a step as the recorder does; return the folder."""
    folder.mkdir()
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = {"embed": (32, 8), "w": (8, 16), "out": (16, 32)}
    params = {
        name: 0.3 * jax.random.normal(key, shapes[name], jnp.float32) for name, key in zip(shapes, keys, strict=True)
    }
    state = {"params": params, "opt_state": {"mu": jax.tree.map(jnp.zeros_like, params)}, "step": jnp.int32(0)}
    tokens = jax.random.randint(jax.random.key(1), (4, 9), 0, 32, jnp.int32)
    batch = {"inputs": tokens[:, :-1], "targets": tokens[:, 1:]}
    lowered = jax.jit(step, keep_unused=True).lower(state, batch)
    paths = jax.tree_util.tree_flatten_with_path((state, batch))[0]
    names = [("state", "batch")[path[0].idx] + jax.tree_util.keystr(path[1:]) for path, _ in paths]
    leaves = [leaf for _, leaf in paths]
    results = jax.tree_util.tree_leaves_with_path(jax.eval_shape(step, state, batch))
    count = len(jax.tree.leaves(state))
    files.write_packed(folder / files.PROGRAM, lowered.as_text(debug_info=True))
    files.write_arrays(folder / files.ARGUMENTS, names, [bits.to_bits(leaf) for leaf in leaves])
    feeds = [n if n < count else None for n in range(len(leaves))]
    assert len(results) == count + 1
    (folder / files.OBSERVATION).write_text(json.dumps({"kept": list(range(len(leaves))), "feeds": feeds}))
    return str(folder)


def compare(tmp_path: Path, candidate: Any, baseline: Any = None) -> FunctionComparison:
    folders = [record(step, tmp_path / name) for name, step in (("a", baseline or make_step()), ("b", candidate))]
    settings = FunctionSettings(*folders, curve_steps=STEPS)
    return summarise_function(json.loads(json.dumps(compare_steps(settings, lambda text: None))))


@pytest.mark.parametrize(
    ("scale", "state"),
    [
        (lambda count, norm, loss: jnp.where(count >= 50, 0.5, 1.0), "counter 50"),
        (lambda count, norm, loss: jnp.where(count >= 300, 0.5, 1.0), "counter 300"),
        (lambda count, norm, loss: jnp.where(count >= 10_000, 0.5, 1.0), "counter 10,000"),
        (lambda count, norm, loss: jnp.asarray([1.0, 1.0, 0.5])[jnp.minimum(count // 1000, 2)], "counter 2,000"),
        (lambda count, norm, loss: jnp.where(norm > 10, 0.0, 1.0), ""),
        (lambda count, norm, loss: jnp.where(norm > 1000, 0.0, 1.0), ""),
        (lambda count, norm, loss: jnp.where(norm > 5000, 0.0, 1.0), ""),
        (lambda count, norm, loss: jnp.where(loss > 100, 0.0, 1.0), "weights"),
        (lambda count, norm, loss: jnp.clip(loss, 0.0, 50.0) / jnp.maximum(loss, 1e-9), "weights"),
    ],
)  # fmt: skip
def test_a_branch_that_no_run_reached_is_found(tmp_path: Path, scale: Any, state: str) -> None:
    found = compare(tmp_path, make_step(scale=scale))
    assert found.answer == "another"
    assert found.is_beyond_run
    assert found.gaps[0].state.startswith(state)


def test_a_guard_against_what_is_not_finite_is_found(tmp_path: Path) -> None:
    def guarded(state: Tree, batch: Tree) -> Any:
        new, metrics = make_step()(state, batch)
        good = jnp.isfinite(metrics["loss"])
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, state | {"step": new["step"]}), metrics

    found = compare(tmp_path, guarded)
    assert (found.answer, found.gaps[0].state) == ("another", "a weight that is NaN")


def test_the_line_of_the_condition_that_turned_is_named(tmp_path: Path) -> None:
    def halve(count: Any, norm: Any, loss: Any) -> Any:
        return jnp.where(count >= 77, 0.5, 1.0)

    found = compare(tmp_path, make_step(scale=halve))
    assert "test_sweep.py" in found.sentence
    assert "count >= 77" in found.sentence


def test_a_condition_that_no_state_turns_is_a_gap(tmp_path: Path) -> None:
    """A step of one number alone: no grid meets it."""
    only = make_step(scale=lambda count, norm, loss: jnp.where((count + 263) % 1000 == 0, 0.5, 1.0))
    found = compare(tmp_path, only)
    assert found.answer == "same"
    assert any("test_sweep.py" in gap for gap in found.not_evaluated)


@pytest.mark.parametrize("rewrite", ["rounding", "relu"])
def test_equal_functions_are_the_same_at_every_state(tmp_path: Path, rewrite: str) -> None:
    def candidate(state: Tree, batch: Tree) -> Any:
        def loss_of(params: Tree) -> Any:
            x = params["embed"][batch["inputs"]]
            x = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
            logits = jnp.einsum("bse,ev->bsv", jnp.tanh(jnp.einsum("bse,ef->bsf", x, params["w"])), params["out"])
            picked = (jax.nn.one_hot(batch["targets"], 32, dtype=logits.dtype) * jax.nn.log_softmax(logits)).sum(-1)
            return -(picked.sum() / picked.size)

        loss, gradients = jax.value_and_grad(loss_of)(state["params"])
        mu = jax.tree.map(lambda m, g: g + m * 0.9, state["opt_state"]["mu"], gradients)
        rate = 0.1 * jnp.asarray(1.0, jnp.float32)
        params = jax.tree.map(lambda p, m: (p + m * -rate).astype(p.dtype), state["params"], mu)
        if rewrite == "relu":
            params = jax.tree.map(lambda p: jnp.where(p > 0, p, 0) + jnp.minimum(p, 0), params)
        return {"params": params, "opt_state": {"mu": mu}, "step": state["step"] + 1}, {"loss": loss}

    found = compare(tmp_path, candidate)
    assert (found.answer, found.not_evaluated, found.doubts) == ("same", (), ()), found.sentence
    assert len(found.swept) > 20


def test_a_step_that_overflows_as_run_is_no_certain_same(tmp_path: Path) -> None:
    def unsafe(state: Tree, batch: Tree) -> Any:
        def loss_of(params: Tree) -> Any:
            logits = forward(params, batch["inputs"])
            picked = jnp.take_along_axis(logits, batch["targets"][..., None], -1)[..., 0]
            return (jnp.log(jnp.exp(logits).sum(-1)) - picked).mean()

        loss, gradients = jax.value_and_grad(loss_of)(state["params"])
        mu = jax.tree.map(lambda m, g: 0.9 * m + g, state["opt_state"]["mu"], gradients)
        params = jax.tree.map(lambda p, m: (p - 0.1 * m).astype(p.dtype), state["params"], mu)
        return {"params": params, "opt_state": {"mu": mu}, "step": state["step"] + 1}, {"loss": loss}

    found = compare(tmp_path, unsafe)
    assert found.answer == "another" or any("as run" in doubt for doubt in found.doubts)
