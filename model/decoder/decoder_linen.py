"""The decoder in Flax Linen, from tokens to the inputs of the loss. `decoder_nnx.py` has the same classes in NNX."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp

from configs.schema import TrainConfig
from model.decoder import layers
from model.decoder.attention import ATTENTION_KERNELS, kernel_name
from model.decoder.contraction import PRODUCTS, Product, contract, plain_product
from model.decoder.experts import run_experts
from model.decoder.initializers import INITIALIZERS, Initializer
from model.decoder.param_linen import linen_param
from model.decoder.sharding import constrain
from model.decoder.stack_linen import STACKS, StackInputs


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis with a learned scale."""

    config: TrainConfig
    width: int

    @nn.compact
    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        cfg = self.config
        init = linen_param(INITIALIZERS["norm"], ("norm",))
        scale_E: jax.Array = self.param("scale", init, (self.width,), jnp.dtype(cfg.weight_dtype))
        return layers.rms_norm(x_BLE, scale_E, cfg.normalization_layer_epsilon, cfg.dtype)


class Projection(nn.Module):
    """A matmul with a learned kernel, written as an einsum equation."""

    config: TrainConfig
    product: Product
    equation: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    kernel_init: Initializer

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = linen_param(self.kernel_init, self.axes)
        kernel: jax.Array = self.param("kernel", init, self.shape, jnp.dtype(self.config.weight_dtype))
        return contract(self.product, self.equation, x, kernel.astype(self.config.dtype))


class TokenEmbedder(nn.Module):
    """One learned vector per token."""

    config: TrainConfig

    @nn.compact
    def __call__(self, tokens_BL: jax.Array) -> jax.Array:
        cfg = self.config
        init = linen_param(INITIALIZERS["token_embedder"], ("vocab", "embed_vocab"))
        shape = (cfg.vocab_size, cfg.base_emb_dim)
        embedding_VE: jax.Array = self.param("embedding", init, shape, jnp.dtype(cfg.weight_dtype))
        return layers.look_up(embedding_VE.astype(cfg.dtype), tokens_BL)


class LogitsKernel(nn.Module):
    """The kernel of the logits; the loss applies it to the last activations."""

    config: TrainConfig

    @nn.compact
    def __call__(self) -> jax.Array:
        cfg = self.config
        init = linen_param(INITIALIZERS["logits_dense"], ("embed_vocab", "vocab"))
        shape = (cfg.base_emb_dim, cfg.vocab_size)
        kernel_EV: jax.Array = self.param("kernel", init, shape, jnp.dtype(cfg.weight_dtype))
        return kernel_EV.astype(cfg.dtype)


class Attention(nn.Module):
    """Causal self-attention with rotary embeddings; several query heads may share a key and value head."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, context: layers.Context) -> jax.Array:
        cfg = self.config
        E, H, G, K = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.base_num_kv_heads, cfg.head_dim
        product, kv_axes = PRODUCTS[cfg.quantization], ("embed", "kv_heads", "kv_head_dim")

        def project(name: str, heads: int, axes: tuple[str, ...]) -> jax.Array:
            shape, init = (E, heads, K), INITIALIZERS[name]
            x_BLHK = Projection(cfg, product, "BLE,EHK->BLHK", shape, axes, init, name=name)(x_BLE)
            x_BLHK = layers.name_for_remat(x_BLHK, f"{name}_proj")
            return constrain(x_BLHK, "activation_batch", "activation_length", "activation_heads", "activation_kv")

        query_BLHK = layers.rotary(project("query", H, ("embed", "q_heads", "kv")), context)
        key_BLGK = layers.rotary(project("key", G, kv_axes), context)
        value_BLGK = project("value", G, kv_axes)
        attend = ATTENTION_KERNELS[kernel_name(cfg)]
        attended_BLHK = attend(query_BLHK, key_BLGK, value_BLGK, context.segment_ids_BL)
        shape, axes, init = (H, K, E), ("heads", "kv", "embed"), INITIALIZERS["out"]
        out_BLE = Projection(cfg, product, "BLHK,HKE->BLE", shape, axes, init, name="out")(attended_BLHK)
        return layers.name_for_remat(out_BLE, layers.OUT)


class LowRankQuery(nn.Module):
    """Queries through a low-rank projection, with a norm in between."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        cfg, product, init = self.config, PRODUCTS[self.config.quantization], INITIALIZERS["low_rank"]
        E, H, R, K = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.q_lora_rank, layers.query_width(cfg)
        low_BLR = Projection(cfg, product, "BLE,ER->BLR", (E, R), ("embed", "low_rank"), init, name="wq_a")(x_BLE)
        low_BLR = RMSNorm(cfg, R, name="q_norm")(low_BLR)
        shape, axes = (R, H, K), ("low_rank", "q_heads", "kv")
        return Projection(cfg, product, "BLR,RHK->BLHK", shape, axes, init, name="wq_b")(low_BLR)


class LatentAttention(nn.Module):
    """Causal self-attention whose keys and values come from one low-rank vector per token (MLA)."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, context: layers.Context) -> jax.Array:
        cfg, product, init = self.config, PRODUCTS[self.config.quantization], INITIALIZERS["low_rank"]
        E, H, R, V = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.kv_lora_rank, cfg.v_head_dim
        query_BLHK = layers.name_for_remat(QUERIES[layers.query_name(cfg)](cfg, "query")(x_BLE), "query_proj")
        down, up = (E, R + cfg.qk_rope_head_dim), (R, H, cfg.qk_nope_head_dim + V)
        low_BLR = Projection(cfg, product, "BLE,ER->BLR", down, ("embed", "low_rank"), init, name="wkv_a")(x_BLE)
        low_BLR, rope_key_BLK = jnp.split(low_BLR, [R], -1)
        axes = ("low_rank", "kv_heads", "kv_head_dim")
        key_value = Projection(cfg, product, "BLR,RHK->BLHK", up, axes, init, name="wkv_b")
        key_value_BLHK = layers.name_for_remat(key_value(RMSNorm(cfg, R, name="kv_norm")(low_BLR)), "key_proj")
        attended_BLHK = layers.attend_latent(cfg, query_BLHK, key_value_BLHK, rope_key_BLK, context)
        shape, axes, init = (H, V, E), ("heads", "kv", "embed"), INITIALIZERS["out"]
        out_BLE = Projection(cfg, product, "BLHK,HKE->BLE", shape, axes, init, name="out")(attended_BLHK)
        return layers.name_for_remat(out_BLE, layers.OUT)


class MLP(nn.Module):
    """Gated MLP of width F (Shazeer 2020): dropout(silu(x·wi_0) ⊙ (x·wi_1))·wo. It has no auxiliary loss."""

    config: TrainConfig
    width: int

    @nn.compact
    def __call__(self, x_BLE: jax.Array, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        cfg, product = self.config, PRODUCTS[self.config.quantization]
        E, F = cfg.base_emb_dim, self.width

        def widen(name: str) -> jax.Array:
            shape, axes, init = (E, F), ("embed", "mlp"), INITIALIZERS[name]
            wide_BLF = Projection(cfg, product, "BLE,EF->BLF", shape, axes, init, name=name)(x_BLE)
            return layers.name_for_remat(wide_BLF, f"mlp{name}")

        hidden_BLF = jax.nn.silu(widen("wi_0")) * widen("wi_1")
        hidden_BLF = constrain(hidden_BLF, "activation_batch", "activation_length", "activation_mlp")
        hidden_BLF = layers.dropout(hidden_BLF, cfg, key, "mlp")
        shape, axes, init = (F, E), ("mlp", "embed"), INITIALIZERS["wo"]
        out_BLE = Projection(cfg, product, "BLF,FE->BLE", shape, axes, init, name="wo")(hidden_BLF)
        return layers.name_for_remat(out_BLE, "mlpwo"), {}


class RoutedMLP(nn.Module):
    """A mixture of experts: a router chooses some MLPs for each token. An auxiliary loss balances the experts' load."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        cfg, init = self.config, INITIALIZERS["expert"]
        E, F, N = cfg.base_emb_dim, cfg.base_moe_mlp_dim, cfg.num_experts

        def kernel(name: str, shape: tuple[int, ...], axes: tuple[str, ...]) -> jax.Array:
            value: jax.Array = self.param(name, linen_param(init, axes), shape, jnp.dtype(cfg.weight_dtype))
            return value.astype(cfg.dtype)

        gate = Projection(
            cfg, plain_product, "BLE,EN->BLN", (E, N), ("embed", "exp_chosen"), INITIALIZERS["gate"], name="gate"
        )
        wi_0 = kernel("wi_0", (N, E, F), ("exp", "embed", "mlp"))
        wi_1 = kernel("wi_1", (N, E, F), ("exp", "embed", "mlp"))
        wo = kernel("wo", (N, F, E), ("exp", "mlp", "embed"))
        routed_BLE, loss = run_experts(cfg, x_BLE, gate(x_BLE), (wi_0, wi_1, wo))
        return layers.dropout(routed_BLE, cfg, key, "moe"), {"moe_lb_loss": loss / layers.moe_layers(cfg)}


class SharingMLP(nn.Module):
    """The sum of a mixture of experts and of shared experts, which process every token."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, key: jax.Array | None) -> tuple[jax.Array, dict[str, jax.Array]]:
        cfg = self.config
        routed_BLE, losses = RoutedMLP(cfg, name="routed_experts")(x_BLE, key)
        shared = MLP(cfg, cfg.shared_experts * cfg.base_moe_mlp_dim, name="shared_experts")
        return routed_BLE + shared(x_BLE, key)[0], losses


class DecoderLayer(nn.Module):
    """Attention and an MLP, each after a norm, and each added to the residual stream."""

    config: TrainConfig
    mlp_type: str

    @nn.compact
    def __call__(
        self, x_BLE: jax.Array, layer: jax.Array, context: layers.Context
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        cfg, E = self.config, self.config.base_emb_dim
        key = layers.fold_in(context.key, layer)
        attention = ATTENTION[cfg.attention_type](cfg, name="self_attention")
        x_BLE = x_BLE + attention(RMSNorm(cfg, E, name="pre_self_attention_layer_norm")(x_BLE), context)
        mlp = MLPS[self.mlp_type](cfg, "mlp")
        changed_BLE, losses = mlp(RMSNorm(cfg, E, name="post_self_attention_layer_norm")(x_BLE), key)
        x_BLE = layers.dropout(x_BLE + changed_BLE, cfg, key, "layer")
        return constrain(x_BLE, "activation_batch", "activation_length", "activation_embed"), losses


class DecoderStack(nn.Module):
    """All layers, group by group, the last norm and the kernel of the logits."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, context: layers.Context) -> layers.Output:
        cfg, losses = self.config, []
        for group in layers.layer_groups(cfg):
            x_BLE, group_losses = STACKS[layers.stack_name(cfg)](
                StackInputs(self, cfg, DecoderLayer, group), x_BLE, context
            )
            losses.append(group_losses)
        x_BLE = RMSNorm(cfg, cfg.base_emb_dim, name="decoder_norm")(x_BLE)
        x_BLE = layers.dropout(x_BLE, cfg, context.key, "decoder_norm")
        return layers.Output(x_BLE, LogitsKernel(cfg, name="logits_dense")(), layers.add_losses(*losses))


class Decoder(nn.Module):
    """The complete decoder. `key` contains seed and step; dropout folds in layer and site. None: no dropout."""

    config: TrainConfig

    @nn.compact
    def __call__(
        self, tokens_BL: jax.Array, positions_BL: jax.Array, segment_ids_BL: jax.Array | None, key: jax.Array | None
    ) -> layers.Output:
        cfg = self.config
        x_BLE = TokenEmbedder(cfg, name="token_embedder")(tokens_BL)
        x_BLE = layers.dropout(x_BLE, cfg, key, "token_embedder")
        x_BLE = constrain(x_BLE, "activation_batch", "activation_length", "activation_embed")
        context = layers.make_context(cfg, positions_BL, segment_ids_BL, key)
        return DecoderStack(cfg, name="decoder")(x_BLE, context)


# The keys of ATTENTION are the values of `attention_type`, those of MLPS the values of `LayerGroup.mlp`.
ATTENTION: dict[str, type[Attention | LatentAttention]] = {"global": Attention, "mla": LatentAttention}
MLPS: dict[str, Callable[[TrainConfig, str], nn.Module]] = {
    "dense": lambda cfg, name: MLP(cfg, cfg.base_mlp_dim, name=name),
    "routed": lambda cfg, name: RoutedMLP(cfg, name=name),
    "routed_and_shared": lambda cfg, name: SharingMLP(cfg, name=name),
}


def full_query(cfg: TrainConfig, name: str) -> Projection:
    """Return the query projection of latent attention as a single matmul."""
    shape, axes = (cfg.base_emb_dim, cfg.base_num_query_heads, layers.query_width(cfg)), ("embed", "q_heads", "kv")
    product, init = PRODUCTS[cfg.quantization], INITIALIZERS["low_rank"]
    return Projection(cfg, product, "BLE,EHK->BLHK", shape, axes, init, name=name)


QUERIES: dict[str, Callable[[TrainConfig, str], nn.Module]] = {
    "full": full_query,
    "low_rank": lambda cfg, name: LowRankQuery(cfg, name=name),
}
