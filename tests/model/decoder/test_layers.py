"""The decoder's parts against closed forms, autodiff, and invariants."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.schema import TrainConfig
from model.decoder import layers
from model.decoder.attention import dot_product
from model.decoder.contraction import contract, plain_product

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


def normal(*shape: int, seed: int = 0, dtype: Any = jnp.float32) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape, dtype)


@pytest.mark.parametrize(
    ("equation", "x", "kernel"),
    [
        ("BLE,EF->BLF", (2, 5, 3), (3, 4)),
        ("BLE,EHK->BLHK", (2, 5, 3), (3, 2, 4)),
        ("BLHK,HKE->BLE", (2, 5, 2, 4), (2, 4, 3)),
    ],
)
def test_contract_has_the_gradients_of_autodiff(equation: str, x: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    def total(contract: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
        return lambda x, w: jnp.sum(jnp.sin(contract(equation, x, w)))

    arguments = normal(*x), normal(*kernel, seed=1)
    np.testing.assert_array_equal(contract(plain_product, equation, *arguments), jnp.einsum(equation, *arguments))
    ours = jax.grad(total(partial(contract, plain_product)), argnums=(0, 1))(*arguments)
    derived = jax.grad(total(jnp.einsum), argnums=(0, 1))(*arguments)
    for mine, theirs in zip(ours, derived, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_rms_norm_divides_by_the_root_mean_square() -> None:
    x_BLE = jnp.asarray([[[3.0, -4.0]]])
    normed = layers.rms_norm(x_BLE, jnp.asarray([1.0, 2.0]), 0.0, "float32")
    np.testing.assert_allclose(normed, [[[3 / 12.5**0.5, -8 / 12.5**0.5]]], rtol=1e-6)


def test_rotary_keeps_lengths_and_makes_products_depend_on_distance_only(mini_config: MiniConfig) -> None:
    query_K, key_K = normal(8), normal(8, seed=1)
    length = 6
    config = mini_config(dtype="float32", head_dim=8)
    context = layers.make_context(config, jnp.arange(length)[None], None, None)
    query = layers.rotary(jnp.broadcast_to(query_K[None, None, None, :], (1, length, 1, 8)), context)[0, :, 0]
    key = layers.rotary(jnp.broadcast_to(key_K[None, None, None, :], (1, length, 1, 8)), context)[0, :, 0]
    np.testing.assert_allclose(jnp.linalg.norm(query, axis=-1), jnp.full(length, jnp.linalg.norm(query_K)), rtol=1e-5)
    np.testing.assert_allclose(query[0], query_K, rtol=1e-6)
    products = query @ key.T
    for distance in range(length):
        along = np.diagonal(products, distance)
        np.testing.assert_allclose(along, np.full_like(along, along[0]), rtol=1e-4, atol=1e-4)
    assert abs(float(products[0, 1] - products[0, 0])) > 1e-3


def test_attention_ignores_later_tokens() -> None:
    query, key, value = (normal(1, 5, 2, 4, seed=seed) for seed in range(3))
    changed = dot_product(query, key.at[:, 3:].add(1.0), value.at[:, 3:].add(1.0), None)
    attended = dot_product(query, key, value, None)
    np.testing.assert_array_equal(attended[:, :3], changed[:, :3])
    assert np.all(np.asarray(attended[:, 3:] != changed[:, 3:]))
    np.testing.assert_allclose(attended[:, 0], value[:, 0], rtol=1e-6)


def test_attention_ignores_other_texts() -> None:
    """Two texts in one sequence give the same as each alone."""
    query, key, value = (normal(1, 5, 2, 4, seed=seed) for seed in range(3))
    packed = dot_product(query, key, value, jnp.asarray([[1, 1, 1, 2, 2]]))
    for text in (slice(0, 3), slice(3, 5)):
        alone = dot_product(query[:, text], key[:, text], value[:, text], None)
        np.testing.assert_allclose(packed[:, text], alone, rtol=1e-6)


def test_grouped_queries_share_their_key_and_value_heads() -> None:
    """Equal to attention with every key and value head written out for each of its query heads."""
    query, key, value = normal(1, 5, 4, 8), normal(1, 5, 2, 8, seed=1), normal(1, 5, 2, 8, seed=2)
    written_out = [jnp.stack([x[:, :, head // 2] for head in range(4)], axis=2) for x in (key, value)]
    np.testing.assert_array_equal(dot_product(query, key, value, None), dot_product(query, *written_out, None))


class TestDropout:
    def drop(self, config: TrainConfig, key: jax.Array, site: str = "mlp") -> np.ndarray:
        return np.asarray(layers.dropout(jnp.ones((8, 4, 512)), config, key, site))

    def test_dropout_drops_its_share_and_scales_the_rest(self, mini_config: MiniConfig) -> None:
        dropped = self.drop(mini_config(dropout_rate=0.25), jax.random.key(0))
        # 8 × 512 draws: 0.02 is three standard deviations
        assert abs(float(np.mean(dropped == 0)) - 0.25) < 0.02
        np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.75, rtol=1e-6)

    def test_dropout_does_not_round_its_factor_to_bfloat16(self, mini_config: MiniConfig) -> None:
        x_BLE = normal(8, 4, 512, dtype=jnp.bfloat16)
        dropped = np.asarray(layers.dropout(x_BLE, mini_config(dropout_rate=0.1), jax.random.key(0), "mlp"))
        exact = (np.asarray(x_BLE, np.float64) / 0.9).astype(dropped.dtype)
        np.testing.assert_array_equal(dropped[dropped != 0], exact[dropped != 0])

    def test_dropout_drops_the_same_channels_at_every_position_and_others_in_every_sequence(
        self, mini_config: MiniConfig
    ) -> None:
        dropped = self.drop(mini_config(dropout_rate=0.5), jax.random.key(0))
        assert np.all(dropped == dropped[:, :1])
        assert np.any(dropped[0] != dropped[1])

    def test_dropout_depends_on_key_and_site_alone(self, mini_config: MiniConfig) -> None:
        config = mini_config(dropout_rate=0.5)
        first = self.drop(config, jax.random.key(0))
        assert np.array_equal(first, self.drop(config, jax.random.key(0)))
        assert not np.array_equal(first, self.drop(config, jax.random.key(1)))
        assert not np.array_equal(first, self.drop(config, jax.random.key(0), "layer"))

    @pytest.mark.parametrize("changes", [{"dropout_rate": 0.0}, {"dropout_rate": 0.5, "enable_dropout": False}])
    def test_dropout_does_nothing_when_disabled(self, changes: dict[str, Any], mini_config: MiniConfig) -> None:
        assert np.all(self.drop(mini_config(**changes), jax.random.key(0)) == 1.0)
