"""The attention kernels by name. A kernel computes attention from queries, keys and values, without parameters."""

import importlib
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from configs.kernels import choose_attention
from configs.schema import TrainConfig
from model.decoder.sharding import RULES

# logit of a masked key: its softmax is 0, and it is finite in bfloat16
MASKED = -2.0e38
LARGEST_BLOCK = 512  # most positions per block of the TPU's kernel
BATCH_AXES, HEADS_AXIS = RULES["activation_batch"], RULES["activation_heads"]

type Saved = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
# (query_BLHK, key_BSGK, value_BSGK, segment_ids_BL or None) -> attended_BLHK
type AttentionKernel = Callable[[jax.Array, jax.Array, jax.Array, jax.Array | None], jax.Array]


def share_heads(x_BSGK: jax.Array, heads: int) -> jax.Array:
    """Repeat each key or value head for the neighbouring query heads that share it (Ainslie et al. 2023)."""
    return x_BSGK if x_BSGK.shape[2] == heads else jnp.repeat(x_BSGK, heads // x_BSGK.shape[2], axis=2)


def causal_mask(length: int, segment_ids_BL: jax.Array | None) -> jax.Array:
    """Return a mask with the axes B (or 1), L, S: query L attends to the keys S of its text, up to its own position."""
    causal_BLS = jnp.tril(jnp.ones((length, length), dtype=jnp.bool_))[None]
    if segment_ids_BL is None:
        return causal_BLS
    return causal_BLS & (segment_ids_BL[:, :, None] == segment_ids_BL[:, None, :])


def dot_product(
    query_BLHK: jax.Array, key_BSGK: jax.Array, value_BSGK: jax.Array, segment_ids_BL: jax.Array | None
) -> jax.Array:
    """Return causal dot-product attention, with its softmax in float32.

    The logits are not divided by √K: the initial values of the query kernel include that factor, as in T5 and MaxText,
    or `attend_latent` has applied it.
    """
    length, heads = query_BLHK.shape[1:3]
    key_BSHK, value_BSHK = share_heads(key_BSGK, heads), share_heads(value_BSGK, heads)
    return attend(query_BLHK, key_BSHK, value_BSHK, causal_mask(length, segment_ids_BL))


@jax.custom_vjp
def attend(query_BLHK: jax.Array, key_BSHK: jax.Array, value_BSHK: jax.Array, mask_BLS: jax.Array) -> jax.Array:
    """Return the weighted sum of the values for each query.

    The gradients are explicit, because JAX's own gradients are slow on CPUs, as in `contract` (decision 0046). The
    formulas are those of FlashAttention (Dao et al. 2022, appendix B.4), with products in the dtype of the operands.
    """
    return _attend_forward(query_BLHK, key_BSHK, value_BSHK, mask_BLS)[0]


def _attend_forward(
    query_BLHK: jax.Array, key_BSHK: jax.Array, value_BSHK: jax.Array, mask_BLS: jax.Array
) -> tuple[jax.Array, Saved]:
    logits_BHLS = jnp.einsum("BLHK,BSHK->BHLS", query_BLHK, key_BSHK, preferred_element_type=jnp.float32)
    weights_BHLS = jax.nn.softmax(jnp.where(mask_BLS[:, None], logits_BHLS, MASKED), axis=-1)
    attended_BLHK = jnp.einsum("BHLS,BSHK->BLHK", weights_BHLS.astype(value_BSHK.dtype), value_BSHK)
    return attended_BLHK, (query_BLHK, key_BSHK, value_BSHK, weights_BHLS, attended_BLHK)


def _attend_backward(saved: Saved, grad_attended_BLHK: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, None]:
    query_BLHK, key_BSHK, value_BSHK, weights_BHLS, attended_BLHK = saved
    grad_value_BHKS = jnp.einsum("BLHK,BHLS->BHKS", grad_attended_BLHK, weights_BHLS.astype(value_BSHK.dtype))
    grad_weights_BHLS = jnp.einsum(
        "BLHK,BSHK->BHLS", grad_attended_BLHK, value_BSHK, preferred_element_type=jnp.float32
    )
    mean_BHL = jnp.sum(grad_attended_BLHK.astype(jnp.float32) * attended_BLHK, axis=-1).swapaxes(1, 2)
    grad_logits_BHLS = (weights_BHLS * (grad_weights_BHLS - mean_BHL[..., None])).astype(query_BLHK.dtype)
    grad_query_BLHK = jnp.einsum("BHLS,BSHK->BLHK", grad_logits_BHLS, key_BSHK)
    grad_key_BHKS = jnp.einsum("BLHK,BHLS->BHKS", query_BLHK, grad_logits_BHLS)
    return grad_query_BLHK, jnp.moveaxis(grad_key_BHKS, 3, 1), jnp.moveaxis(grad_value_BHKS, 3, 1), None


attend.defvjp(_attend_forward, _attend_backward)


def jax_attention(
    query_BLHK: jax.Array, key_BSGK: jax.Array, value_BSGK: jax.Array, segment_ids_BL: jax.Array | None
) -> jax.Array:
    """Return JAX's own attention. As in `dot_product`, the softmax is in float32 and the logits are not scaled."""
    mask = None if segment_ids_BL is None else causal_mask(query_BLHK.shape[1], segment_ids_BL)[:, None]
    return jax.nn.dot_product_attention(query_BLHK, key_BSGK, value_BSGK, mask=mask, scale=1.0, is_causal=True)


def splash(
    query_BLHK: jax.Array, key_BSGK: jax.Array, value_BSGK: jax.Array, segment_ids_BL: jax.Array | None
) -> jax.Array:
    """Run JAX's Pallas kernel for TPUs, which never stores all logits. Each device computes its own shard."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return splash_on_device(query_BLHK, key_BSGK, value_BSGK, segment_ids_BL)
    split = PartitionSpec(BATCH_AXES, None, HEADS_AXIS)
    texts = None if segment_ids_BL is None else PartitionSpec(BATCH_AXES)
    everywhere = jax.shard_map(
        splash_on_device, in_specs=(split, split, split, texts), out_specs=split, check_vma=False
    )
    attended_BLHK: jax.Array = everywhere(query_BLHK, key_BSGK, value_BSGK, segment_ids_BL)
    return attended_BLHK


def splash_on_device(
    query_BLHK: jax.Array,
    key_BSGK: jax.Array,
    value_BSGK: jax.Array,
    segment_ids_BL: jax.Array | None,
    *,
    interpret: bool = False,
) -> jax.Array:
    """Run the kernel on the shard of one device. interpret: run without a TPU, for tests."""
    # imported here and in load_kernel, because Pallas is slow to import
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


# The keys are the values of `kernel_name`.
ATTENTION_KERNELS: dict[str, AttentionKernel] = {
    "dot_product": dot_product,
    "flash": jax_attention,
    "flash on tpu": splash,
}


def kernel_name(config: TrainConfig) -> str:
    """Return the key in ATTENTION_KERNELS for the config's `attention` and `hardware`."""
    kernel = choose_attention(config).kernel
    return "flash on tpu" if (kernel, config.hardware) == ("flash", "tpu") else kernel


def load_kernel(config: TrainConfig) -> None:
    """Import the kernel's modules. Must run before anything is traced.

    Pallas adds its own settings to the key of JAX's trace cache. If it is imported while a step is traced, functions
    that were traced before the import are traced a second time, and the program contains them twice.
    """
    if ATTENTION_KERNELS[kernel_name(config)] is splash:
        importlib.import_module("jax.experimental.pallas.ops.tpu.splash_attention")
