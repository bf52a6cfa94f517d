"""Turns queries, keys and values into what attention reads: the cores that have no parameters, by name."""

import importlib
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from configs.schema import TrainConfig
from model.decoder.sharding import RULES

# Large enough to vanish in any softmax, small enough to stay finite in bfloat16.
MASKED = -2.0e38
LARGEST_BLOCK = 512  # positions that the TPU's kernel takes at once
BATCH_AXES, HEADS_AXIS = RULES["activation_batch"], RULES["activation_heads"]

type Saved = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
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
    return attend(query_BLHK, key_BSHK, value_BSHK, visible(length, segment_ids_BL))


@jax.custom_vjp
def attend(query_BLHK: jax.Array, key_BSHK: jax.Array, value_BSHK: jax.Array, seen_BLS: jax.Array) -> jax.Array:
    """What each query sees of the values, weighted. Its gradients are spelt out, as `contract`'s are and for the same
    reason (decision 0046): Flash attention's (Dao et al. 2022, appendix B.4), with products in the operands' type."""
    return _attend_forward(query_BLHK, key_BSHK, value_BSHK, seen_BLS)[0]


def _attend_forward(
    query_BLHK: jax.Array, key_BSHK: jax.Array, value_BSHK: jax.Array, seen_BLS: jax.Array
) -> tuple[jax.Array, Saved]:
    logits_BHLS = jnp.einsum("BLHK,BSHK->BHLS", query_BLHK, key_BSHK, preferred_element_type=jnp.float32)
    weights_BHLS = jax.nn.softmax(jnp.where(seen_BLS[:, None], logits_BHLS, MASKED), axis=-1)
    attended_BLHK = jnp.einsum("BHLS,BSHK->BLHK", weights_BHLS.astype(value_BSHK.dtype), value_BSHK)
    return attended_BLHK, (query_BLHK, key_BSHK, value_BSHK, weights_BHLS, attended_BLHK)


def _attend_backward(saved: Saved, of_attended_BLHK: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, None]:
    query_BLHK, key_BSHK, value_BSHK, weights_BHLS, attended_BLHK = saved
    of_value_BHKS = jnp.einsum("BLHK,BHLS->BHKS", of_attended_BLHK, weights_BHLS.astype(value_BSHK.dtype))
    of_weights_BHLS = jnp.einsum("BLHK,BSHK->BHLS", of_attended_BLHK, value_BSHK, preferred_element_type=jnp.float32)
    mean_BHL = jnp.sum(of_attended_BLHK.astype(jnp.float32) * attended_BLHK, axis=-1).swapaxes(1, 2)
    of_logits_BHLS = (weights_BHLS * (of_weights_BHLS - mean_BHL[..., None])).astype(query_BLHK.dtype)
    of_query_BLHK = jnp.einsum("BHLS,BSHK->BLHK", of_logits_BHLS, key_BSHK)
    of_key_BHKS = jnp.einsum("BLHK,BHLS->BHKS", query_BLHK, of_logits_BHLS)
    return of_query_BLHK, jnp.moveaxis(of_key_BHKS, 3, 1), jnp.moveaxis(of_value_BHKS, 3, 1), None


attend.defvjp(_attend_forward, _attend_backward)


def library(
    query_BLHK: jax.Array, key_BSGK: jax.Array, value_BSGK: jax.Array, segment_ids_BL: jax.Array | None
) -> jax.Array:
    """JAX's own attention, as exact as `dot_product`: softmax in float32, no factor on the logits."""
    mask = None if segment_ids_BL is None else visible(query_BLHK.shape[1], segment_ids_BL)[:, None]
    return jax.nn.dot_product_attention(query_BLHK, key_BSGK, value_BSGK, mask=mask, scale=1.0, is_causal=True)


def splash(
    query_BLHK: jax.Array, key_BSGK: jax.Array, value_BSGK: jax.Array, segment_ids_BL: jax.Array | None
) -> jax.Array:
    """The TPU's kernel that never holds all logits (Pallas, of JAX itself), on each device for its own heads."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return splash_here(query_BLHK, key_BSGK, value_BSGK, segment_ids_BL)
    split = PartitionSpec(BATCH_AXES, None, HEADS_AXIS)
    texts = None if segment_ids_BL is None else PartitionSpec(BATCH_AXES)
    everywhere = jax.shard_map(splash_here, in_specs=(split, split, split, texts), out_specs=split, check_vma=False)
    attended_BLHK: jax.Array = everywhere(query_BLHK, key_BSGK, value_BSGK, segment_ids_BL)
    return attended_BLHK


def splash_here(
    query_BLHK: jax.Array,
    key_BSGK: jax.Array,
    value_BSGK: jax.Array,
    segment_ids_BL: jax.Array | None,
    *,
    interpret: bool = False,
) -> jax.Array:
    """The kernel over what one device holds. interpret: without a TPU, for tests."""
    # here and in load_kernel, for Pallas takes a while to load
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash_kernel
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as splash_mask

    length, heads = query_BLHK.shape[1:3]
    size = math.gcd(length, LARGEST_BLOCK)
    sizes = splash_kernel.BlockSizes(
        block_q=size, block_kv=size, block_kv_compute=size, block_q_dkv=size, block_kv_dkv=size,
        block_kv_dkv_compute=size, block_q_dq=size, block_kv_dq=size,
    )  # fmt: skip
    mask = splash_mask.MultiHeadMask([splash_mask.CausalMask((length, length))] * heads)
    run = splash_kernel.make_splash_mha(mask, block_sizes=sizes, head_shards=1, q_seq_shards=1, interpret=interpret)

    def attend(query_HLK: jax.Array, key_GSK: jax.Array, value_GSK: jax.Array, ids_L: jax.Array | None) -> jax.Array:
        ids = None if ids_L is None else splash_kernel.SegmentIds(q=ids_L, kv=ids_L)
        attended_HLK: jax.Array = run(query_HLK, key_GSK, value_GSK, ids)
        return attended_HLK

    query_BHLK, key_BGSK, value_BGSK = (jnp.swapaxes(array, 1, 2) for array in (query_BLHK, key_BSGK, value_BSGK))
    return jnp.swapaxes(jax.vmap(attend)(query_BHLK, key_BGSK, value_BGSK, segment_ids_BL), 1, 2)


# By `kernel_name`.
ATTENTION_KERNELS: dict[str, AttentionCore] = {"dot_product": dot_product, "flash": library, "flash on tpu": splash}


def kernel_name(config: TrainConfig) -> str:
    """Which core computes `attention` on this kind of device."""
    on_tpu = config.attention == "flash" and config.hardware == "tpu"
    return "flash on tpu" if on_tpu else config.attention


def load_kernel(config: TrainConfig) -> None:
    """Load what the core needs, before anything is traced.

    Pallas adds settings of its own to what JAX remembers a trace by. Loaded in the middle of a step, it makes JAX trace
    again what the step has used before: the program then holds the same function twice.
    """
    if ATTENTION_KERNELS[kernel_name(config)] is splash:
        importlib.import_module("jax.experimental.pallas.ops.tpu.splash_attention")
