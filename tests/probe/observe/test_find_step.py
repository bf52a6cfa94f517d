"""A trainer's jitted functions are told apart by what they return."""

import jax
import jax.numpy as jnp
import pytest

from maxview_probe.observe.jaxprs import is_step

pytestmark = pytest.mark.flows  # loads JAX

WEIGHTS = {"first": jnp.ones((4, 4)), "second": jnp.ones((4, 2))}
BATCH = {"x": jnp.ones((8, 4)), "y": jnp.ones((8, 2)), "mask": jnp.ones(8), "noise": jnp.ones((8, 3))}


def loss_of(weights: dict[str, jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
    return jnp.mean(batch["mask"] * jnp.sum((batch["x"] @ weights["first"] @ weights["second"] - batch["y"]) ** 2, -1))


def descend(weights: dict[str, jax.Array], batch: dict[str, jax.Array]) -> tuple[dict[str, jax.Array], jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
    return jax.tree.map(lambda x, move: x - 0.1 * move, weights, gradients), loss


def predict(weights: dict[str, jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
    return batch["x"] @ weights["first"] @ weights["second"] + 0 * batch["noise"][:, :2]


def test_a_step_of_few_weights_and_many_arrays_of_the_batch_is_found() -> None:
    assert is_step("descend", jax.make_jaxpr(descend)(WEIGHTS, BATCH).jaxpr)


def test_a_prediction_in_the_shape_of_the_targets_is_no_step() -> None:
    assert not is_step("predict", jax.make_jaxpr(predict)(WEIGHTS, BATCH).jaxpr)
