"""Computes a mixture of experts from tokens, the router's logits and the experts' kernels."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from configs.schema import TrainConfig

type Kernels = tuple[jax.Array, jax.Array, jax.Array]  # wi_0_NEF, wi_1_NEF, wo_NFE; N experts here, not layers


class Routed(NamedTuple):
    """The k experts of each of T tokens, best first, and their weights."""

    weights_Tk: jax.Array  # float32
    experts_Tk: jax.Array


def route(config: TrainConfig, logits_BLN: jax.Array) -> tuple[Routed, jax.Array]:
    """Return each token's experts, and the load-balance loss: per sequence, mean(chosen · probability) · N².

    With `norm_topk_prob` a token's weights add up to 1 (Jiang et al. 2024, Mixtral); without, they are the router's
    probabilities (DeepSeek-V2). The loss also has the factor `load_balance_loss_weight`, as in Switch Transformer
    (Fedus et al. 2022) and MaxText. If all experts are chosen equally often, the loss is that factor · k.
    """
    count, chosen = config.num_experts, config.num_experts_per_tok
    probabilities_BLN = jax.nn.softmax(logits_BLN.astype(jnp.float32), axis=-1)
    weights_BLk, experts_BLk = jax.lax.top_k(probabilities_BLN, chosen)
    if config.norm_topk_prob:
        weights_BLk /= jnp.sum(weights_BLk, axis=-1, keepdims=True)
    density_BN = jnp.mean(jnp.sum(jax.nn.one_hot(experts_BLk, count), axis=2), axis=1)
    loss = jnp.mean(density_BN * jnp.mean(probabilities_BLN, axis=1)) * count**2 * config.load_balance_loss_weight
    return Routed(weights_BLk.reshape(-1, chosen), experts_BLk.reshape(-1, chosen)), loss


def grouped_mlp(rows: jax.Array, kernels: Kernels, sizes: jax.Array) -> jax.Array:
    """Apply the gated MLPs to tokens that are sorted by expert: the first `sizes[0]` belong to the first expert."""
    wi_0, wi_1, wo = kernels
    hidden = jax.nn.silu(jax.lax.ragged_dot(rows, wi_0, sizes)) * jax.lax.ragged_dot(rows, wi_1, sizes)
    return jax.lax.ragged_dot(hidden, wo, sizes)


def run_local_experts(x_TE: jax.Array, routed: Routed, kernels: Kernels, first: jax.Array | int) -> jax.Array:
    """Return the weighted output of this device's experts `first`, `first` + 1, …; other experts contribute 0."""
    own, chosen = kernels[0].shape[0], routed.experts_Tk.shape[1]
    local = routed.experts_Tk.reshape(-1) - first
    local = jnp.where((local >= 0) & (local < own), local, own)  # the tokens of other devices' experts come last
    order = jnp.argsort(local, stable=True)
    output = grouped_mlp(x_TE[order // chosen], kernels, jnp.bincount(local, length=own + 1)[:own])
    output_TkE = output[jnp.argsort(order)].reshape(*routed.experts_Tk.shape, -1)
    local_Tk = (local < own).reshape(routed.experts_Tk.shape)
    weights_Tk = jnp.where(local_Tk, routed.weights_Tk, 0)
    # summed in float32, like MaxText with its default float32_weight_sum
    local_TkE = jnp.where(local_Tk[:, :, None], output_TkE, 0).astype(jnp.float32)
    return jnp.sum(local_TkE * weights_Tk[:, :, None], axis=1).astype(output.dtype)


def dropless(config: TrainConfig, x_TE: jax.Array, routed: Routed, kernels: Kernels) -> jax.Array:
    """Send every token to all of its experts. On a mesh that splits them, devices run their experts on all tokens."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.shape["expert"] == 1:
        return run_local_experts(x_TE, routed, kernels, 0)
    own = config.num_experts // mesh.shape["expert"]

    def on_device(x_TE: jax.Array, routed: Routed, kernels: Kernels) -> jax.Array:
        x_TE, routed = (jax.lax.all_gather(each, "expert", axis=0, tiled=True) for each in (x_TE, routed))
        output_TE = run_local_experts(x_TE, routed, kernels, jax.lax.axis_index("expert") * own)
        scattered_TE: jax.Array = jax.lax.psum_scatter(output_TE, "expert", scatter_dimension=0, tiled=True)
        return scattered_TE

    split = PartitionSpec("expert")
    # axis_names: inside, the arrays stay sharded over the other mesh axes
    everywhere = jax.shard_map(on_device, in_specs=(split, split, split), out_specs=split, axis_names={"expert"})
    output_TE: jax.Array = everywhere(x_TE, routed, kernels)
    return output_TE


def with_capacity(config: TrainConfig, x_TE: jax.Array, routed: Routed, kernels: Kernels) -> jax.Array:
    """Send each expert at most as many tokens as its capacity; first choices precede second ones. Drop the others."""
    tokens, count, chosen = x_TE.shape[0], config.num_experts, config.num_experts_per_tok
    capacity = math.ceil(tokens * chosen / count * config.capacity_factor)
    taken = jax.nn.one_hot(routed.experts_Tk.T.reshape(-1), count, dtype=jnp.int32)
    slot = (
        jnp.cumsum(taken, axis=0) * taken - 1
    )  # position among the expert's tokens, -1 if not chosen; one_hot gives zeros for -1 and beyond the capacity
    slots = jax.nn.one_hot(slot, capacity, dtype=x_TE.dtype).reshape(chosen, tokens, count, capacity)
    rows = jnp.einsum("kTNC,TE->NCE", slots, x_TE)
    wi_0, wi_1, wo = kernels
    hidden = jax.nn.silu(jnp.einsum("NCE,NEF->NCF", rows, wi_0)) * jnp.einsum("NCE,NEF->NCF", rows, wi_1)
    output = jnp.einsum("NCF,NFE->NCE", hidden, wo)
    return jnp.einsum("kTNC,Tk,NCE->TE", slots, routed.weights_Tk.astype(x_TE.dtype), output)


# The keys are the values of `dispatch_name`.
DISPATCHES: dict[str, Callable[[TrainConfig, jax.Array, Routed, Kernels], jax.Array]] = {
    "dropless": dropless,
    "capacity": with_capacity,
}


def dispatch_name(config: TrainConfig) -> str:
    """Return the key in DISPATCHES: "capacity" if `capacity_factor` is positive, else "dropless"."""
    return "capacity" if config.capacity_factor > 0 else "dropless"


def run_experts(
    config: TrainConfig, x_BLE: jax.Array, logits_BLN: jax.Array, kernels: Kernels
) -> tuple[jax.Array, jax.Array]:
    """Return the output of the mixture for a batch, and its load-balance loss."""
    routed, loss = route(config, logits_BLN)
    output_TE = DISPATCHES[dispatch_name(config)](config, x_BLE.reshape(-1, x_BLE.shape[-1]), routed, kernels)
    return output_TE.reshape(x_BLE.shape), loss
