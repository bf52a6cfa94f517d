"""Mixtures of experts against a loop over experts, and latent attention against its formula."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.schema import TrainConfig
from model.decoder import experts, layers
from model.decoder.attention import dot_product
from model.decoder.sharding import make_mesh

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]

MOE = {"num_experts": 4, "num_experts_per_tok": 2, "base_moe_mlp_dim": 8, "dtype": "float32", "base_emb_dim": 6}


@pytest.fixture
def inputs() -> tuple[jax.Array, jax.Array, experts.Kernels]:
    """x_BLE, logits_BLN, kernels."""
    shapes = [(4, 4, 6), (4, 4, 4), (4, 6, 8), (4, 6, 8), (4, 8, 6)]
    x, logits, *kernels = (jax.random.normal(jax.random.key(n), shape) for n, shape in enumerate(shapes))
    return x, logits, (kernels[0], kernels[1], kernels[2])


def loop(x_BLE: jax.Array, logits_BLN: jax.Array, kernels: experts.Kernels, chosen: int) -> np.ndarray:
    """Every expert on every token; the `chosen` best are weighted by the router, with 1 in all, the others by 0."""
    weights = np.asarray(jax.nn.softmax(logits_BLN, axis=-1))
    least = np.sort(weights, axis=-1)[..., -chosen][..., None]
    weights = np.where(weights >= least, weights, 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    total = np.zeros(x_BLE.shape)
    for expert in range(4):
        wi_0, wi_1, wo = (np.asarray(kernel[expert]) for kernel in kernels)
        made = (np.asarray(jax.nn.silu(x_BLE @ wi_0)) * np.asarray(x_BLE @ wi_1)) @ wo
        total += weights[..., expert, None] * made
    return total


@pytest.mark.parametrize("capacity_factor", [-1.0, 4.0])
def test_experts_are_a_loop_over_experts(
    capacity_factor: float, inputs: tuple[jax.Array, jax.Array, experts.Kernels], mini_config: MiniConfig
) -> None:
    """With room for everything a capacity drops nothing."""
    made, _ = experts.run_experts(mini_config("06_moe", **MOE, capacity_factor=capacity_factor), *inputs)
    np.testing.assert_allclose(made, loop(*inputs, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_topk_prob", [True, False])
def test_weights_are_mixtrals_or_deepseeks(norm_topk_prob: bool, mini_config: MiniConfig) -> None:
    """Mixtral: softmax over the chosen logits alone. DeepSeek-V2: their share of the softmax over all logits."""
    logits = jnp.log(jnp.asarray([[[0.1, 0.4, 0.2, 0.3]]]))
    routed, _ = experts.route(mini_config("06_moe", **MOE, norm_topk_prob=norm_topk_prob), logits)
    expected = [4 / 7, 3 / 7] if norm_topk_prob else [0.4, 0.3]
    np.testing.assert_allclose(routed.weights_Tk[0], expected, rtol=1e-6)


def test_experts_on_four_devices_equal_experts_on_one(
    inputs: tuple[jax.Array, jax.Array, experts.Kernels], mini_config: MiniConfig
) -> None:
    config = mini_config("06_moe", **MOE, ici_expert_parallelism=4, ici_fsdp_parallelism=1)
    with jax.set_mesh(make_mesh(config, jax.devices()[:4])):
        made, _ = jax.jit(lambda *arrays: experts.run_experts(config, *arrays))(*inputs)
    np.testing.assert_allclose(made, loop(*inputs, 2), rtol=1e-4, atol=1e-5)


def test_a_full_expert_drops_tokens(
    inputs: tuple[jax.Array, jax.Array, experts.Kernels], mini_config: MiniConfig
) -> None:
    """All 16 tokens route to expert 0 first; at half of an even split of 32 places it has 4."""
    x, logits, kernels = inputs
    config = mini_config("06_moe", **(MOE | {"num_experts_per_tok": 1}), capacity_factor=1.0)
    made, _ = experts.run_experts(config, x, logits.at[:, :, 0].set(100.0), kernels)
    kept = np.any(np.asarray(made) != 0, axis=-1).reshape(-1)
    assert list(kept) == [True] * 4 + [False] * 12


def test_the_load_balance_loss_is_least_with_equally_loaded_experts(mini_config: MiniConfig) -> None:
    config = mini_config("06_moe", **(MOE | {"num_experts_per_tok": 1}), load_balance_loss_weight=1.0)
    even = 5.0 * jnp.eye(4)[None]
    uneven = 5.0 * jnp.tile(jnp.eye(4)[0], (1, 4, 1))
    losses = [float(experts.route(config, logits)[1]) for logits in (even, uneven)]
    np.testing.assert_allclose(losses[0], 1.0, rtol=1e-6)
    probability = np.exp(5) / (np.exp(5) + 3)
    np.testing.assert_allclose(losses[1], 4 * probability, rtol=1e-6)  # mean over 4 of (1 · p, 0, 0, 0), times 4²


def test_latent_attention_adds_products_with_and_without_position(mini_config: MiniConfig) -> None:
    """softmax((q·k + rotated q·rotated k) / √(nope + rope)); all heads share the rotated key."""
    sizes = {"qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 3}
    config = mini_config("07_mla", dtype="float32", **sizes)
    query, key_value, rope_key = (
        jax.random.normal(jax.random.key(n), shape) for n, shape in enumerate([(1, 5, 2, 10), (1, 5, 2, 9), (1, 5, 4)])
    )
    context = layers.make_context(config, jnp.arange(5)[None], None, None)
    found = layers.attend_latent(config, query, key_value, rope_key, context)
    for head in range(2):
        turned = layers.rotary(query[:, :, head : head + 1, 6:], context)[0, :, 0]
        turned_key = layers.rotary(rope_key[:, :, None, :], context)[0, :, 0]
        logits = query[0, :, head, :6] @ key_value[0, :, head, :6].T + turned @ turned_key.T
        weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((5, 5), bool)), logits / 10**0.5, -jnp.inf), axis=-1)
        np.testing.assert_allclose(found[0, :, head], weights @ key_value[0, :, head, 6:], rtol=1e-4, atol=1e-5)
    assert found.shape == dot_product(query, query, key_value[..., 6:], None).shape
