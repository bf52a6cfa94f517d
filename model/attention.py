"""Turns queries, keys and values into what attention reads: the cores that have no parameters, by name."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

# Large enough to vanish in any softmax, small enough to stay finite in bfloat16.
MASKED = -2.0e38

# (query_BLHK, key_BSGK, value_BSGK, segment_ids_BL or None) -> attended_BLHK
type AttentionCore = Callable[[jax.Array, jax.Array, jax.Array, jax.Array | None], jax.Array]


def share_heads(x_BSGK: jax.Array, heads: int) -> jax.Array:
    """One key or value head for each of `heads` query heads: neighbours share one (Ainslie et al. 2023)."""
    return x_BSGK if x_BSGK.shape[2] == heads else jnp.repeat(x_BSGK, heads // x_BSGK.shape[2], axis=2)


def visible(length: int, segment_ids_BL: jax.Array | None) -> jax.Array:
    """Which keys S each query L sees: none that come later, none of another text. Axes B (or 1), L, S."""
    causal_BLS = jnp.tril(jnp.ones((length, length), dtype=jnp.bool_))[None]
    if segment_ids_BL is None:
        return causal_BLS
    return causal_BLS & (segment_ids_BL[:, :, None] == segment_ids_BL[:, None, :])


def dot_product(
    query_BLHK: jax.Array, key_BSGK: jax.Array, value_BSGK: jax.Array, segment_ids_BL: jax.Array | None
) -> jax.Array:
    """Causal dot-product attention, softmax in float32.

    The logits are not divided by √K: that factor is in the query kernel's initial values, as in T5 and MaxText.
    """
    length, heads = query_BLHK.shape[1:3]
    key_BSHK, value_BSHK = share_heads(key_BSGK, heads), share_heads(value_BSGK, heads)
    logits_BHLS = jnp.einsum("BLHK,BSHK->BHLS", query_BLHK, key_BSHK, preferred_element_type=jnp.float32)
    seen_BLS = visible(length, segment_ids_BL)
    weights_BHLS = jax.nn.softmax(jnp.where(seen_BLS[:, None], logits_BHLS, MASKED), axis=-1)
    return jnp.einsum("BHLS,BSHK->BLHK", weights_BHLS.astype(value_BSHK.dtype), value_BSHK)


# By the value of `attention`.
CORES: dict[str, AttentionCore] = {"dot_product": dot_product}
