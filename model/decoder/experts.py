"""Turns tokens, a router's logits and the experts' kernels into what each token's experts make of it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from configs.schema import TrainConfig

type Kernels = tuple[jax.Array, jax.Array, jax.Array]  # wi_0_NEF, wi_1_NEF, wo_NFE; N experts here, not layers


class Routed(NamedTuple):
    """Which experts each of T tokens goes to, k of them, best first."""

    weights_Tk: jax.Array  # float32
    experts_Tk: jax.Array


def route(config: TrainConfig, logits_BLN: jax.Array) -> tuple[Routed, jax.Array]:
    """Each token's experts, and MaxText's load-balance loss: per sequence, mean(chosen · probability) · N².

    It is least, its weight times k, where all experts are chosen equally often.
    """
    count, chosen = config.num_experts, config.num_experts_per_tok
    probabilities_BLN = jax.nn.softmax(logits_BLN.astype(jnp.float32), axis=-1)
    weights_BLk, experts_BLk = jax.lax.top_k(probabilities_BLN, chosen)
    density_BN = jnp.mean(jnp.sum(jax.nn.one_hot(experts_BLk, count), axis=2), axis=1)
    loss = jnp.mean(density_BN * jnp.mean(probabilities_BLN, axis=1)) * count**2 * config.load_balance_loss_weight
    return Routed(weights_BLk.reshape(-1, chosen), experts_BLk.reshape(-1, chosen)), loss


def grouped_mlp(rows: jax.Array, kernels: Kernels, sizes: jax.Array) -> jax.Array:
    """The gated MLP of every row, whose experts stand in order: the first `sizes[0]` rows are the first expert's."""
    wi_0, wi_1, wo = kernels
    hidden = jax.nn.silu(jax.lax.ragged_dot(rows, wi_0, sizes)) * jax.lax.ragged_dot(rows, wi_1, sizes)
    return jax.lax.ragged_dot(hidden, wo, sizes)


def run_own(x_TE: jax.Array, routed: Routed, kernels: Kernels, first: jax.Array | int) -> jax.Array:
    """What the experts `first`, `first` + 1, … make of those tokens that go to them; nothing of the others."""
    own, chosen = kernels[0].shape[0], routed.experts_Tk.shape[1]
    local = routed.experts_Tk.reshape(-1) - first
    local = jnp.where((local >= 0) & (local < own), local, own)  # somebody else's come last
    order = jnp.argsort(local, stable=True)
    made = grouped_mlp(x_TE[order // chosen], kernels, jnp.bincount(local, length=own + 1)[:own])
    made_TkE = made[jnp.argsort(order)].reshape(*routed.experts_Tk.shape, -1)
    mine_Tk = (local < own).reshape(routed.experts_Tk.shape)
    weights_Tk = jnp.where(mine_Tk, routed.weights_Tk, 0).astype(made.dtype)
    return jnp.sum(jnp.where(mine_Tk[:, :, None], made_TkE, 0) * weights_Tk[:, :, None], axis=1)


def dropless(config: TrainConfig, x_TE: jax.Array, routed: Routed, kernels: Kernels) -> jax.Array:
    """Every token goes to all of its experts. On an expert axis each device gathers the tokens and runs its own."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.shape["expert"] == 1:
        return run_own(x_TE, routed, kernels, 0)
    own = config.num_experts // mesh.shape["expert"]

    def on_device(x_TE: jax.Array, routed: Routed, kernels: Kernels) -> jax.Array:
        x_TE, routed = (jax.lax.all_gather(each, "expert", axis=0, tiled=True) for each in (x_TE, routed))
        made_TE = run_own(x_TE, routed, kernels, jax.lax.axis_index("expert") * own)
        scattered_TE: jax.Array = jax.lax.psum_scatter(made_TE, "expert", scatter_dimension=0, tiled=True)
        return scattered_TE

    split = PartitionSpec("expert")
    # every other axis splits what it splits outside as well
    everywhere = jax.shard_map(on_device, in_specs=(split, split, split), out_specs=split, axis_names={"expert"})
    made_TE: jax.Array = everywhere(x_TE, routed, kernels)
    return made_TE


def with_capacity(config: TrainConfig, x_TE: jax.Array, routed: Routed, kernels: Kernels) -> jax.Array:
    """Each expert takes as many tokens as fit, first choices first; what does not fit is left out."""
    tokens, count, chosen = x_TE.shape[0], config.num_experts, config.num_experts_per_tok
    capacity = math.ceil(tokens * chosen / count * config.capacity_factor)
    taken = jax.nn.one_hot(routed.experts_Tk.T.reshape(-1), count, dtype=jnp.int32)
    place = jnp.cumsum(taken, axis=0) * taken - 1  # -1 where not taken: no slot, and none beyond the capacity
    slots = jax.nn.one_hot(place, capacity, dtype=x_TE.dtype).reshape(chosen, tokens, count, capacity)
    rows = jnp.einsum("kTNC,TE->NCE", slots, x_TE)
    wi_0, wi_1, wo = kernels
    hidden = jax.nn.silu(jnp.einsum("NCE,NEF->NCF", rows, wi_0)) * jnp.einsum("NCE,NEF->NCF", rows, wi_1)
    made = jnp.einsum("NCF,NFE->NCE", hidden, wo)
    return jnp.einsum("kTNC,Tk,NCE->TE", slots, routed.weights_Tk.astype(x_TE.dtype), made)


# By `dispatch_name`.
DISPATCHES: dict[str, Callable[[TrainConfig, jax.Array, Routed, Kernels], jax.Array]] = {
    "dropless": dropless,
    "capacity": with_capacity,
}


def dispatch_name(config: TrainConfig) -> str:
    """`capacity_factor` below 0 drops nothing."""
    return "capacity" if config.capacity_factor > 0 else "dropless"


def run_experts(
    config: TrainConfig, x_BLE: jax.Array, logits_BLN: jax.Array, kernels: Kernels
) -> tuple[jax.Array, jax.Array]:
    """What the experts make of a batch, and the loss that keeps them equally busy."""
    routed, loss = route(config, logits_BLN)
    made_TE = DISPATCHES[dispatch_name(config)](config, x_BLE.reshape(-1, x_BLE.shape[-1]), routed, kernels)
    return made_TE.reshape(x_BLE.shape), loss
