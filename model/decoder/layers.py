"""The functions of the decoder's layers. They receive weights as arguments, so that both APIs share them."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from configs.schema import TrainConfig
from model.decoder.attention import ATTENTION_KERNELS, kernel_name
from model.decoder.sharding import RULES, constrain


def look_up(table_VE: jax.Array, tokens_BL: jax.Array) -> jax.Array:
    """Return each token's row of the table.

    If the mesh splits both the vocabulary and the width, the width is gathered first: the looked-up rows would be split
    by width, and the partitioner replicates them to split them by batch ("involuntary full rematerialization").
    """
    shape = jax.sharding.get_abstract_mesh().shape
    if min(shape.get(RULES[axis], 1) for axis in ("vocab", "embed_vocab")) > 1:
        table_VE = constrain(table_VE, "vocab", "activation_embed")
    return table_VE[tokens_BL]


def rms_norm(x_BLE: jax.Array, scale_E: jax.Array, epsilon: float, dtype: str) -> jax.Array:
    """Divide by the root mean square over E, in float32, then scale in `dtype` (Zhang and Sennrich 2019)."""
    wide = x_BLE.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normed = (wide * jax.lax.rsqrt(mean_square + epsilon)).astype(dtype)
    return normed * scale_E.astype(dtype)[None, None, :]


class Context(NamedTuple):
    """The inputs of every layer besides the residual stream."""

    sin_BLK: jax.Array  # sine of the rotary angles; K is half the rotated width
    cos_BLK: jax.Array
    segment_ids_BL: jax.Array | None  # as in `Batch`
    key: jax.Array | None  # random key of seed and step; None switches dropout off


def make_context(
    config: TrainConfig, positions_BL: jax.Array, segment_ids_BL: jax.Array | None, key: jax.Array | None
) -> Context:
    """Return the context of a batch. Rotary wavelengths are 2π … 2π·rope_max_timescale (Su et al. 2021)."""
    half = ROTARY_WIDTH[config.attention_type](config) // 2
    timescale = config.rope_max_timescale ** (jnp.arange(half, dtype=jnp.float32) / half)
    angle_BLK = positions_BL.astype(jnp.float32)[:, :, None] / timescale[None, None, :]
    sin_BLK, cos_BLK = (turn(angle_BLK).astype(config.dtype) for turn in (jnp.sin, jnp.cos))
    return Context(sin_BLK, cos_BLK, segment_ids_BL, key)


# The keys are the values of `attention_type`.
ROTARY_WIDTH: dict[str, Callable[[TrainConfig], int]] = {
    "global": lambda config: config.head_dim,
    "mla": lambda config: config.qk_rope_head_dim,
}


def rotary(x_BLHK: jax.Array, context: Context) -> jax.Array:
    """Rotate channel pairs (k, k + K/2) by the token's position."""
    sin, cos = context.sin_BLK[:, :, None, :], context.cos_BLK[:, :, None, :]
    first, second = jnp.split(x_BLHK, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def site_number(name: str) -> int:
    """Return a number for a name (a dropout site, a parameter's path), to fold into a random key."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def fold_in(key: jax.Array | None, number: jax.typing.ArrayLike) -> jax.Array | None:
    """Return the random key of a layer or of a part of the batch; None if `key` is None."""
    return None if key is None else jax.random.fold_in(key, number)


def dropout(x_BLE: jax.Array, config: TrainConfig, key: jax.Array | None, site: str) -> jax.Array:
    """Drop channels at `dropout_rate`; a sequence drops the same channels at all its positions, as MaxText does.

    `key` already contains the step and the layer, so the mask depends on (step, layer, site) and not on the order in
    which an API draws. Evaluations pass None, which switches dropout off.
    """
    if key is None or not config.enable_dropout or config.dropout_rate == 0.0:
        return x_BLE
    batch, _, width = x_BLE.shape
    keep = 1.0 - config.dropout_rate
    # drawn flat: a rank-3 draw takes several times as long to compile
    kept_B1E = jax.random.bernoulli(jax.random.fold_in(key, site_number(site)), keep, (batch * width,)).reshape(
        batch, 1, width
    )
    scaled_BLE = (x_BLE.astype(jnp.float32) / keep).astype(x_BLE.dtype)  # bfloat16 would round the factor itself
    return jnp.where(kept_B1E, scaled_BLE, jnp.zeros((), x_BLE.dtype))


class Output(NamedTuple):
    """The output of a decoder for a batch."""

    x_BLE: jax.Array  # the last activations
    kernel_EV: jax.Array  # of the logits
    auxiliary: dict[str, jax.Array]  # name -> further loss, which is added to the minimised loss


def add_losses(*found: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Sum losses by name over layers (a leading axis) and over groups of layers."""
    names = sorted({name for losses in found for name in losses})
    return {name: sum((jnp.sum(losses[name]) for losses in found if name in losses), jnp.float32(0)) for name in names}


class LayerGroup(NamedTuple):
    """Consecutive layers with the same kind of MLP."""

    name: str
    first: int  # number of its first layer in the decoder, from 0
    layers: int  # number of layers
    mlp: str  # "dense", "routed" or "routed_and_shared"

    @property
    def numbers(self) -> jax.Array:
        """The numbers of its layers, for dropout keys."""
        return jnp.arange(self.first, self.first + self.layers)


def layer_groups(config: TrainConfig) -> list[LayerGroup]:
    """Return the decoder's groups of layers in order, with MaxText's names."""
    layers, dense = config.base_num_decoder_layers, config.first_num_dense_layers
    if config.num_experts == 1:
        return [LayerGroup("layers", 0, layers, "dense")]
    mixture = "routed_and_shared" if config.shared_experts else "routed"
    if dense == 0:
        return [LayerGroup("layers", 0, layers, mixture)]
    return [LayerGroup("dense_layers", 0, dense, "dense"), LayerGroup("moe_layers", dense, layers - dense, mixture)]


def moe_layers(config: TrainConfig) -> int:
    """Return the number of layers with a mixture of experts."""
    return sum(group.layers for group in layer_groups(config) if group.mlp != "dense")


def query_width(config: TrainConfig) -> int:
    """Return the width of a query head of latent attention: its part without position plus its rotary part."""
    return config.qk_nope_head_dim + config.qk_rope_head_dim


def query_name(config: TrainConfig) -> str:
    """Return the name of the query projection of latent attention, "full" or "low_rank"."""
    return "low_rank" if config.q_lora_rank else "full"


def attend_latent(
    config: TrainConfig, query_BLHK: jax.Array, key_value_BLHK: jax.Array, rope_key_BLK: jax.Array, context: Context
) -> jax.Array:
    """Return latent attention. Each head has a part without position and a rotary part, whose key all heads share.

    As in DeepSeek-V2 (2024), section 2.1. The queries are multiplied by 1 / √K, which is the logits' factor. They are
    multiplied in float32, because bfloat16 would round the factor.
    """
    nope, rope, heads = config.qk_nope_head_dim, config.qk_rope_head_dim, config.base_num_query_heads
    scaled_BLHK = (query_BLHK.astype(jnp.float32) * (nope + rope) ** -0.5).astype(query_BLHK.dtype)
    query_nope, query_rope = jnp.split(scaled_BLHK, [nope], -1)
    key_nope, value_BLHK = jnp.split(key_value_BLHK, [nope], -1)
    key_rope = jnp.repeat(rotary(rope_key_BLK[:, :, None, :], context), heads, axis=2)
    query_BLHK = jnp.concatenate([query_nope, rotary(query_rope, context)], -1)
    key_BLHK = jnp.concatenate([key_nope, key_rope], -1)
    return ATTENTION_KERNELS[kernel_name(config)](query_BLHK, key_BLHK, value_BLHK, context.segment_ids_BL)


def name_for_remat(x: jax.Array, name: str) -> jax.Array:
    """Name `x`, so that a remat policy can save it."""
    return cast(jax.Array, checkpoint_name(x, name))


QKV, OUT = ("query_proj", "key_proj", "value_proj"), "out_proj"  # names of the projections' results in both decoders

# The results of a layer that `jax.checkpoint` saves or offloads, by the value of `remat_policy`; `full` keeps none.
REMAT_POLICIES: dict[str, Callable[..., Any] | None] = {
    "full": None,
    "minimal": jax.checkpoint_policies.save_only_these_names(*QKV, OUT, "mlpwi_0", "mlpwi_1", "mlpwo"),
    "save_dot_except_mlp": jax.checkpoint_policies.save_only_these_names(*QKV, OUT),
    "qkv_proj_offloaded": jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=list(QKV),
        offload_src="device",
        offload_dst="pinned_host",
    ),
}


def remat_function[F: Callable[..., Any]](config: TrainConfig, run: F) -> F:
    """Return `run` wrapped in `jax.checkpoint` according to `remat_policy`; "none" leaves it unchanged."""
    if config.remat_policy == "none":
        return run
    return cast(F, jax.checkpoint(run, prevent_cse=False, policy=REMAT_POLICIES[config.remat_policy]))


def stack_name(config: TrainConfig) -> str:
    """Return the key in the STACKS of both APIs: "pipeline", "scan" or "unrolled"."""
    if config.ici_pipeline_parallelism > 1:
        return "pipeline"
    return "scan" if config.scan_layers else "unrolled"
