"""The loss against Optax's, with and without blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from model.train import loss

pytestmark = pytest.mark.flows

BATCH, LENGTH, WIDTH = 2, 5, 3


def normal(*shape: int, seed: int) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize("vocabulary", [7, 3 * 8192], ids=["one block", "three blocks"])
def test_the_loss_and_its_gradients_are_optax_s(vocabulary: int) -> None:
    x_BLE, kernel_EV = normal(BATCH, LENGTH, WIDTH, seed=0), normal(WIDTH, vocabulary, seed=1)
    targets_BL = jax.random.randint(jax.random.key(2), (BATCH, LENGTH), 0, vocabulary)
    weights_BL = jnp.asarray([[0.25, 0.25, 0.25, 0.25, 0.0], [0.0] * 5])

    def reference(x_BLE: jax.Array, kernel_EV: jax.Array) -> jax.Array:
        logits_BLV = jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV)
        return jnp.sum(optax.softmax_cross_entropy_with_integer_labels(logits_BLV, targets_BL) * weights_BL)

    ours = jax.value_and_grad(loss.cross_entropy, (0, 1))(x_BLE, kernel_EV, targets_BL, weights_BL)
    theirs = jax.value_and_grad(reference, (0, 1))(x_BLE, kernel_EV)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_the_loss_of_equal_logits_is_the_log_of_the_vocabulary() -> None:
    x_BLE, kernel_EV = jnp.zeros((2, 3, 4), jnp.bfloat16), jnp.ones((4, 50), jnp.bfloat16)
    found = loss.cross_entropy(x_BLE, kernel_EV, jnp.zeros((2, 3), jnp.int32), jnp.full((2, 3), 1 / 6))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, np.log(50), rtol=1e-6)


@pytest.mark.parametrize(
    ("vocabulary", "blocks"),
    [(512, 1), (8192, 1), (8320, 5), (32000, 5), (32001, 1)],
    ids=["small", "as large as a block", "65 lanes", "the seeds'", "no whole lanes"],
)
def test_blocks_have_whole_lanes(vocabulary: int, blocks: int) -> None:
    assert loss.count_blocks(vocabulary) == blocks
