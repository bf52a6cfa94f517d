"""The decoder in Flax NNX, from tokens to the inputs of the loss. `decoder_linen.py` has the same classes in Linen."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from configs.schema import TrainConfig
from model.decoder import layers
from model.decoder.attention import ATTENTION_KERNELS, kernel_name
from model.decoder.contraction import PRODUCTS, Product, contract, plain_product
from model.decoder.experts import run_experts
from model.decoder.initializers import INITIALIZERS, Initializer
from model.decoder.param_nnx import nnx_param
from model.decoder.sharding import constrain
from model.decoder.stack_nnx import STACKS


class RMSNorm(nnx.Module):
    """Root-mean-square norm over the last axis with a learned scale."""

    def __init__(self, config: TrainConfig, width: int, *, rngs: nnx.Rngs):
        self.config = config
        self.scale = nnx_param(INITIALIZERS["norm"], ("norm",), (width,), jnp.dtype(config.weight_dtype), rngs)

    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        cfg = self.config
        return layers.rms_norm(x_BLE, self.scale[...], cfg.normalization_layer_epsilon, cfg.dtype)


class Projection(nnx.Module):
    """A matmul with a learned kernel, written as an einsum equation."""

    def __init__(
        self,
        config: TrainConfig,
        product: Product,
        equation: str,
        shape: tuple[int, ...],
        axes: tuple[str, ...],
        kernel_init: Initializer,
        *,
        rngs: nnx.Rngs,
    ):
        self.config = config
        self.product = product
        self.equation = equation
        self.kernel = nnx_param(kernel_init, axes, shape, jnp.dtype(config.weight_dtype), rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return contract(self.product, self.equation, x, self.kernel[...].astype(self.config.dtype))


class TokenEmbedder(nnx.Module):
    """One learned vector per token."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        shape = (cfg.vocab_size, cfg.base_emb_dim)
        init, axes = INITIALIZERS["token_embedder"], ("vocab", "embed_vocab")
        self.embedding = nnx_param(init, axes, shape, jnp.dtype(cfg.weight_dtype), rngs)

    def __call__(self, tokens_BL: jax.Array) -> jax.Array:
        return layers.look_up(self.embedding[...].astype(self.config.dtype), tokens_BL)


class LogitsKernel(nnx.Module):
    """The kernel of the logits; the loss applies it to the last activations."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        shape = (cfg.base_emb_dim, cfg.vocab_size)
        init, axes = INITIALIZERS["logits_dense"], ("embed_vocab", "vocab")
        self.kernel = nnx_param(init, axes, shape, jnp.dtype(cfg.weight_dtype), rngs)

    def __call__(self) -> jax.Array:
        return self.kernel[...].astype(self.config.dtype)


class Attention(nnx.Module):
    """Causal self-attention with rotary embeddings; several query heads may share a key and value head."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        E, H, G, K = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.base_num_kv_heads, cfg.head_dim
        product, kv_axes = PRODUCTS[cfg.quantization], ("embed", "kv_heads", "kv_head_dim")

        def projection(name: str, heads: int, axes: tuple[str, ...]) -> Projection:
            return Projection(cfg, product, "BLE,EHK->BLHK", (E, heads, K), axes, INITIALIZERS[name], rngs=rngs)

        self.query = projection("query", H, ("embed", "q_heads", "kv"))
        self.key = projection("key", G, kv_axes)
        self.value = projection("value", G, kv_axes)
        shape, axes, init = (H, K, E), ("heads", "kv", "embed"), INITIALIZERS["out"]
        self.out = Projection(cfg, product, "BLHK,HKE->BLE", shape, axes, init, rngs=rngs)

    def __call__(self, x_BLE: jax.Array, context: layers.Context) -> jax.Array:
        def project(name: str) -> jax.Array:
            x_BLHK = layers.name_for_remat(getattr(self, name)(x_BLE), f"{name}_proj")
            return constrain(x_BLHK, "activation_batch", "activation_length", "activation_heads", "activation_kv")

        query_BLHK = layers.rotary(project("query"), context)
        key_BLGK = layers.rotary(project("key"), context)
        value_BLGK = project("value")
        attended_BLHK = ATTENTION_KERNELS[kernel_name(self.config)](
            query_BLHK, key_BLGK, value_BLGK, context.segment_ids_BL
        )
        return layers.name_for_remat(self.out(attended_BLHK), layers.OUT)


class LowRankQuery(nnx.Module):
    """Queries through a low-rank projection, with a norm in between."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        cfg, product, init = config, PRODUCTS[config.quantization], INITIALIZERS["low_rank"]
        E, H, R, K = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.q_lora_rank, layers.query_width(cfg)
        self.wq_a = Projection(cfg, product, "BLE,ER->BLR", (E, R), ("embed", "low_rank"), init, rngs=rngs)
        self.q_norm = RMSNorm(cfg, R, rngs=rngs)
        shape, axes = (R, H, K), ("low_rank", "q_heads", "kv")
        self.wq_b = Projection(cfg, product, "BLR,RHK->BLHK", shape, axes, init, rngs=rngs)

    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        return self.wq_b(self.q_norm(self.wq_a(x_BLE)))


class LatentAttention(nnx.Module):
    """Causal self-attention whose keys and values come from one low-rank vector per token (MLA)."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        product, init = PRODUCTS[cfg.quantization], INITIALIZERS["low_rank"]
        E, H, R, V = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.kv_lora_rank, cfg.v_head_dim
        self.query = QUERIES[layers.query_name(cfg)](cfg, rngs)
        down, up = (E, R + cfg.qk_rope_head_dim), (R, H, cfg.qk_nope_head_dim + V)
        self.wkv_a = Projection(cfg, product, "BLE,ER->BLR", down, ("embed", "low_rank"), init, rngs=rngs)
        axes = ("low_rank", "kv_heads", "kv_head_dim")
        self.wkv_b = Projection(cfg, product, "BLR,RHK->BLHK", up, axes, init, rngs=rngs)
        self.kv_norm = RMSNorm(cfg, R, rngs=rngs)
        shape, axes, init = (H, V, E), ("heads", "kv", "embed"), INITIALIZERS["out"]
        self.out = Projection(cfg, product, "BLHK,HKE->BLE", shape, axes, init, rngs=rngs)

    def __call__(self, x_BLE: jax.Array, context: layers.Context) -> jax.Array:
        query_BLHK = layers.name_for_remat(self.query(x_BLE), "query_proj")
        low_BLR, rope_key_BLK = jnp.split(self.wkv_a(x_BLE), [self.config.kv_lora_rank], -1)
        key_value_BLHK = layers.name_for_remat(self.wkv_b(self.kv_norm(low_BLR)), "key_proj")
        attended_BLHK = layers.attend_latent(self.config, query_BLHK, key_value_BLHK, rope_key_BLK, context)
        return layers.name_for_remat(self.out(attended_BLHK), layers.OUT)


class MLP(nnx.Module):
    """Gated MLP of width F (Shazeer 2020): dropout(silu(x·wi_0) ⊙ (x·wi_1))·wo. It has no auxiliary loss."""

    def __init__(self, config: TrainConfig, width: int, *, rngs: nnx.Rngs):
        self.config = cfg = config
        E, F, product = cfg.base_emb_dim, width, PRODUCTS[cfg.quantization]

        def widening(name: str) -> Projection:
            return Projection(cfg, product, "BLE,EF->BLF", (E, F), ("embed", "mlp"), INITIALIZERS[name], rngs=rngs)

        self.wi_0 = widening("wi_0")
        self.wi_1 = widening("wi_1")
        shape, axes, init = (F, E), ("mlp", "embed"), INITIALIZERS["wo"]
        self.wo = Projection(cfg, product, "BLF,FE->BLE", shape, axes, init, rngs=rngs)

    def __call__(self, x_BLE: jax.Array, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        def widen(name: str) -> jax.Array:
            return layers.name_for_remat(getattr(self, name)(x_BLE), f"mlp{name}")

        hidden_BLF = jax.nn.silu(widen("wi_0")) * widen("wi_1")
        hidden_BLF = constrain(hidden_BLF, "activation_batch", "activation_length", "activation_mlp")
        hidden_BLF = layers.dropout(hidden_BLF, self.config, key, "mlp")
        return layers.name_for_remat(self.wo(hidden_BLF), "mlpwo"), {}


class RoutedMLP(nnx.Module):
    """A mixture of experts: a router chooses some MLPs for each token. An auxiliary loss balances the experts' load."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        E, F, N, init = cfg.base_emb_dim, cfg.base_moe_mlp_dim, cfg.num_experts, INITIALIZERS["expert"]

        def kernel(shape: tuple[int, ...], axes: tuple[str, ...]) -> nnx.Param[jax.Array]:
            return nnx_param(init, axes, shape, jnp.dtype(cfg.weight_dtype), rngs)

        axes = ("embed", "exp_chosen")
        self.gate = Projection(cfg, plain_product, "BLE,EN->BLN", (E, N), axes, INITIALIZERS["gate"], rngs=rngs)
        self.wi_0 = kernel((N, E, F), ("exp", "embed", "mlp"))
        self.wi_1 = kernel((N, E, F), ("exp", "embed", "mlp"))
        self.wo = kernel((N, F, E), ("exp", "mlp", "embed"))

    def __call__(self, x_BLE: jax.Array, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        cfg = self.config
        wi_0, wi_1, wo = (kernel[...].astype(cfg.dtype) for kernel in (self.wi_0, self.wi_1, self.wo))
        routed_BLE, loss = run_experts(cfg, x_BLE, self.gate(x_BLE), (wi_0, wi_1, wo))
        return layers.dropout(routed_BLE, cfg, key, "moe"), {"moe_lb_loss": loss / layers.moe_layers(cfg)}


class SharingMLP(nnx.Module):
    """The sum of a mixture of experts and of shared experts, which process every token."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.routed_experts = RoutedMLP(config, rngs=rngs)
        self.shared_experts = MLP(config, config.shared_experts * config.base_moe_mlp_dim, rngs=rngs)

    def __call__(self, x_BLE: jax.Array, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        routed_BLE, losses = self.routed_experts(x_BLE, key)
        return routed_BLE + self.shared_experts(x_BLE, key)[0], losses


class DecoderLayer(nnx.Module):
    """Attention and an MLP, each after a norm, and each added to the residual stream."""

    def __init__(self, config: TrainConfig, mlp_type: str, *, rngs: nnx.Rngs):
        self.config = cfg = config
        self.pre_self_attention_layer_norm = RMSNorm(cfg, cfg.base_emb_dim, rngs=rngs)
        self.self_attention = ATTENTION[cfg.attention_type](cfg, rngs=rngs)
        self.post_self_attention_layer_norm = RMSNorm(cfg, cfg.base_emb_dim, rngs=rngs)
        self.mlp = MLPS[mlp_type](cfg, rngs)

    def __call__(
        self, x_BLE: jax.Array, layer: jax.Array, context: layers.Context
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        key = layers.fold_in(context.key, layer)
        x_BLE = x_BLE + self.self_attention(self.pre_self_attention_layer_norm(x_BLE), context)
        changed_BLE, losses = self.mlp(self.post_self_attention_layer_norm(x_BLE), key)
        x_BLE = layers.dropout(x_BLE + changed_BLE, self.config, key, "layer")
        return constrain(x_BLE, "activation_batch", "activation_length", "activation_embed"), losses


class DecoderStack(nnx.Module):
    """All layers, group by group, the last norm and the kernel of the logits."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        for group in layers.layer_groups(cfg):
            STACKS[layers.stack_name(cfg)].make(self, cfg, DecoderLayer, group, rngs)
        self.decoder_norm = RMSNorm(cfg, cfg.base_emb_dim, rngs=rngs)
        self.logits_dense = LogitsKernel(cfg, rngs=rngs)

    def __call__(self, x_BLE: jax.Array, context: layers.Context) -> layers.Output:
        cfg, losses = self.config, []
        for group in layers.layer_groups(cfg):
            x_BLE, group_losses = STACKS[layers.stack_name(cfg)].run(self, cfg, group, x_BLE, context)
            losses.append(group_losses)
        x_BLE = layers.dropout(self.decoder_norm(x_BLE), cfg, context.key, "decoder_norm")
        return layers.Output(x_BLE, self.logits_dense(), layers.add_losses(*losses))


class Decoder(nnx.Module):
    """The complete decoder. `key` contains seed and step; dropout folds in layer and site. None: no dropout."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.token_embedder = TokenEmbedder(config, rngs=rngs)
        self.decoder = DecoderStack(config, rngs=rngs)

    def __call__(
        self, tokens_BL: jax.Array, positions_BL: jax.Array, segment_ids_BL: jax.Array | None, key: jax.Array | None
    ) -> layers.Output:
        cfg = self.config
        x_BLE = layers.dropout(self.token_embedder(tokens_BL), cfg, key, "token_embedder")
        x_BLE = constrain(x_BLE, "activation_batch", "activation_length", "activation_embed")
        context = layers.make_context(cfg, positions_BL, segment_ids_BL, key)
        return self.decoder(x_BLE, context)


# The keys of ATTENTION are the values of `attention_type`, those of MLPS the values of `LayerGroup.mlp`.
ATTENTION: dict[str, type[Attention | LatentAttention]] = {"global": Attention, "mla": LatentAttention}
MLPS: dict[str, Callable[[TrainConfig, nnx.Rngs], MLP | RoutedMLP | SharingMLP]] = {
    "dense": lambda cfg, rngs: MLP(cfg, cfg.base_mlp_dim, rngs=rngs),
    "routed": lambda cfg, rngs: RoutedMLP(cfg, rngs=rngs),
    "routed_and_shared": lambda cfg, rngs: SharingMLP(cfg, rngs=rngs),
}


def full_query(cfg: TrainConfig, rngs: nnx.Rngs) -> Projection:
    """Return the query projection of latent attention as a single matmul."""
    shape, axes = (cfg.base_emb_dim, cfg.base_num_query_heads, layers.query_width(cfg)), ("embed", "q_heads", "kv")
    product, init = PRODUCTS[cfg.quantization], INITIALIZERS["low_rank"]
    return Projection(cfg, product, "BLE,EHK->BLHK", shape, axes, init, rngs=rngs)


QUERIES: dict[str, Callable[[TrainConfig, nnx.Rngs], Projection | LowRankQuery]] = {
    "full": full_query,
    "low_rank": lambda cfg, rngs: LowRankQuery(cfg, rngs=rngs),
}
