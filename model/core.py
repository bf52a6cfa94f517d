"""Everything in the decoder that has no parameters: turns activations and weights into activations."""

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from configs.schema import TrainConfig

# Large enough to vanish in any softmax, small enough to stay finite in bfloat16.
MASKED = -2.0e38


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def contract(equation: str, x: jax.Array, kernel: jax.Array) -> jax.Array:
    """`jnp.einsum(equation, x, kernel)` for an equation whose every letter stands in two of its three terms.

    The weight gradient is spelt out because the one that JAX derives contracts in the other order and then transposes:
    on CPU that falls out of the fast matmul path and costs about as much as the rest of the step.
    """
    return jnp.einsum(equation, x, kernel)


def _contract_forward(equation: str, x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return jnp.einsum(equation, x, kernel), (x, kernel)


def _contract_backward(
    equation: str, saved: tuple[jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    x, kernel = saved
    inputs, out = equation.split("->")
    of_x, of_kernel = inputs.split(",")
    return (
        jnp.einsum(f"{out},{of_kernel}->{of_x}", gradient, kernel),
        jnp.einsum(f"{of_x},{out}->{of_kernel}", x, gradient),
    )


contract.defvjp(_contract_forward, _contract_backward)


def rms_norm(x_BLE: jax.Array, scale_E: jax.Array, epsilon: float, dtype: str) -> jax.Array:
    """Divide by the root mean square over E, in float32, then scale in `dtype` (Zhang and Sennrich 2019)."""
    wide = x_BLE.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normed = (wide * jax.lax.rsqrt(mean_square + epsilon)).astype(dtype)
    return normed * scale_E.astype(dtype)[None, None, :]


def rotary(x_BLHK: jax.Array, max_timescale: int) -> jax.Array:
    """Turn channel pairs (k, k + K/2) by the token's position (Su et al. 2021); wavelengths 2π … 2π·max_timescale."""
    length, half = x_BLHK.shape[1], x_BLHK.shape[3] // 2
    timescale = max_timescale ** (jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(length, dtype=jnp.float32)[:, None] / timescale[None, :]
    sin = jnp.sin(angle).astype(x_BLHK.dtype)[None, :, None, :]
    cos = jnp.cos(angle).astype(x_BLHK.dtype)[None, :, None, :]
    first, second = jnp.split(x_BLHK, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attend(query_BLHK: jax.Array, key_BSHK: jax.Array, value_BSHK: jax.Array) -> jax.Array:
    """Causal dot-product attention, softmax in float32.

    The logits are not divided by √K: that factor is in the query kernel's initial values, as in T5 and MaxText.
    """
    length = query_BLHK.shape[1]
    logits_BHLS = jnp.einsum("BLHK,BSHK->BHLS", query_BLHK, key_BSHK, preferred_element_type=jnp.float32)
    causal_LS = jnp.tril(jnp.ones((length, length), dtype=jnp.bool_))
    weights_BHLS = jax.nn.softmax(jnp.where(causal_LS[None, None, :, :], logits_BHLS, MASKED), axis=-1)
    return jnp.einsum("BHLS,BSHK->BLHK", weights_BHLS.astype(value_BSHK.dtype), value_BSHK)


def site_number(name: str) -> int:
    """The number that stands for a name (a dropout site, a parameter's path) in a random key."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def dropout(x_BLE: jax.Array, config: TrainConfig, key: jax.Array, site: str) -> jax.Array:
    """Drop channels at `dropout_rate`; a sequence drops the same channels at all its positions, as MaxText does.

    `key` already holds the step and the layer, so what is dropped depends on (step, layer, site) and not on the order
    in which either dialect happens to draw.
    """
    if not config.enable_dropout or config.dropout_rate == 0.0:
        return x_BLE
    batch, _, width = x_BLE.shape
    keep = 1.0 - config.dropout_rate
    # drawn flat: compiling the draw of a rank-3 mask takes several times as long
    kept_B1E = jax.random.bernoulli(jax.random.fold_in(key, site_number(site)), keep, (batch * width,)).reshape(
        batch, 1, width
    )
    return jnp.where(kept_B1E, x_BLE / jnp.asarray(keep, x_BLE.dtype), jnp.zeros((), x_BLE.dtype))


@jax.custom_vjp
def cross_entropy(logits_BLV: jax.Array, targets_BL: jax.Array) -> jax.Array:
    """Mean negative log-likelihood of the targets in nats, computed in float32 whatever the type of the logits.

    The gradient, softmax minus one-hot, is spelt out so that the logits are kept once, in their own type, and no
    one-hot array is made: with a large vocabulary these decide the peak memory of the step.
    """
    return _cross_entropy_forward(logits_BLV, targets_BL)[0]


def _cross_entropy_forward(
    logits_BLV: jax.Array, targets_BL: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
    log_normalizer_BL = jax.nn.logsumexp(logits_BLV.astype(jnp.float32), axis=-1)
    target_logit_BL = jnp.take_along_axis(logits_BLV, targets_BL[:, :, None], axis=-1)[:, :, 0].astype(jnp.float32)
    return jnp.mean(log_normalizer_BL - target_logit_BL), (logits_BLV, targets_BL, log_normalizer_BL)


def _cross_entropy_backward(
    saved: tuple[jax.Array, jax.Array, jax.Array], gradient: jax.Array
) -> tuple[jax.Array, None]:
    logits_BLV, targets_BL, log_normalizer_BL = saved
    softmax_BLV = jnp.exp(logits_BLV.astype(jnp.float32) - log_normalizer_BL[:, :, None])
    is_target_BLV = jax.lax.broadcasted_iota(targets_BL.dtype, logits_BLV.shape, 2) == targets_BL[:, :, None]
    return ((softmax_BLV - is_target_BLV) * (gradient / targets_BL.size)).astype(logits_BLV.dtype), None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)


def remat_policy(config: TrainConfig) -> Callable[..., Any] | None:
    """What `jax.checkpoint` may keep of a layer: `full` recomputes everything, `minimal` all but the matmuls."""
    return jax.checkpoint_policies.dots_with_no_batch_dims_saveable if config.remat_policy == "minimal" else None
