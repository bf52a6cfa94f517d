"""The decoder in Flax Linen: turns tokens into logits. Twin of `decoder_nnx.py`: the same classes in the same order."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from configs.schema import TrainConfig
from model import core
from model.initializers import INITIALIZERS, Initializer
from model.sharding import constrain


class RMSNorm(nn.Module):
    """Root-mean-square norm over E with a learned scale."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        init: Any = nn.with_logical_partitioning(INITIALIZERS["norm"], ("norm",))
        scale_E: jax.Array = self.param("scale", init, (x_BLE.shape[-1],), jnp.dtype(self.config.weight_dtype))
        return core.rms_norm(x_BLE, scale_E, self.config.normalization_layer_epsilon, self.config.dtype)


class Projection(nn.Module):
    """A matmul with a learned kernel, written as an einsum equation."""

    config: TrainConfig
    equation: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    kernel_init: Initializer

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init: Any = nn.with_logical_partitioning(self.kernel_init, self.axes)
        kernel: jax.Array = self.param("kernel", init, self.shape, jnp.dtype(self.config.weight_dtype))
        return core.contract(self.equation, x, kernel.astype(self.config.dtype))


class TokenEmbedder(nn.Module):
    """One learned vector per token."""

    config: TrainConfig

    @nn.compact
    def __call__(self, tokens_BL: jax.Array) -> jax.Array:
        cfg = self.config
        init: Any = nn.with_logical_partitioning(INITIALIZERS["token_embedder"], ("vocab", "embed_vocab"))
        shape = (cfg.vocab_size, cfg.base_emb_dim)
        embedding_VE: jax.Array = self.param("embedding", init, shape, jnp.dtype(cfg.weight_dtype))
        return embedding_VE.astype(cfg.dtype)[tokens_BL]


class Attention(nn.Module):
    """Causal self-attention with rotary embeddings."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        cfg = self.config
        E, H, K = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.head_dim
        kv_axes = ("embed", "kv_heads", "kv_head_dim")

        def project(name: str, axes: tuple[str, ...]) -> jax.Array:
            heads = Projection(cfg, "BLE,EHK->BLHK", (E, H, K), axes, INITIALIZERS[name], name=name)(x_BLE)
            return constrain(heads, "activation_batch", "activation_length", "activation_heads", "activation_kv")

        query_BLHK = core.rotary(project("query", ("embed", "q_heads", "kv")), cfg.rope_max_timescale)
        key_BLHK = core.rotary(project("key", kv_axes), cfg.rope_max_timescale)
        attended_BLHK = core.attend(query_BLHK, key_BLHK, project("value", kv_axes))
        out = Projection(cfg, "BLHK,HKE->BLE", (H, K, E), ("heads", "kv", "embed"), INITIALIZERS["out"], name="out")
        return out(attended_BLHK)


class MLP(nn.Module):
    """Gated MLP: silu(x·wi_0) ⊙ (x·wi_1), dropped out, times wo (Shazeer 2020)."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, key: jax.Array) -> jax.Array:
        cfg = self.config
        E, F = cfg.base_emb_dim, cfg.base_mlp_dim

        def widen(name: str) -> jax.Array:
            return Projection(cfg, "BLE,EF->BLF", (E, F), ("embed", "mlp"), INITIALIZERS[name], name=name)(x_BLE)

        hidden_BLF = jax.nn.silu(widen("wi_0")) * widen("wi_1")
        hidden_BLF = constrain(hidden_BLF, "activation_batch", "activation_length", "activation_mlp")
        hidden_BLF = core.dropout(hidden_BLF, cfg, key, "mlp")
        return Projection(cfg, "BLF,FE->BLE", (F, E), ("mlp", "embed"), INITIALIZERS["wo"], name="wo")(hidden_BLF)


class DecoderLayer(nn.Module):
    """Attention and MLP, each behind its norm and around the residual stream."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, layer: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        cfg = self.config
        key = jax.random.fold_in(key, layer)
        x_BLE = x_BLE + Attention(cfg, name="self_attention")(RMSNorm(cfg, name="pre_self_attention_layer_norm")(x_BLE))
        x_BLE = x_BLE + MLP(cfg, name="mlp")(RMSNorm(cfg, name="post_self_attention_layer_norm")(x_BLE), key)
        x_BLE = core.dropout(x_BLE, cfg, key, "layer")
        return constrain(x_BLE, "activation_batch", "activation_length", "activation_embed"), None


class DecoderStack(nn.Module):
    """All layers, the last norm and the projection to logits. Layers are one scanned module, or one module each."""

    config: TrainConfig

    @nn.compact
    def __call__(self, x_BLE: jax.Array, key: jax.Array) -> jax.Array:
        cfg = self.config
        layer_type = DecoderLayer
        if cfg.remat_policy != "none":
            # inside a scan XLA cannot merge the recomputation with the forward pass anyway
            layer_type = nn.remat(DecoderLayer, prevent_cse=not cfg.scan_layers, policy=core.remat_policy(cfg))
        if cfg.scan_layers:
            scanned = nn.scan(
                layer_type,
                variable_axes={"params": cfg.param_scan_axis},
                split_rngs={"params": True},
                in_axes=(0, nn.broadcast),
                length=cfg.base_num_decoder_layers,
                metadata_params={nn.PARTITION_NAME: "layers"},
            )
            x_BLE, _ = scanned(cfg, name="layers")(x_BLE, jnp.arange(cfg.base_num_decoder_layers), key)
        else:
            for i in range(cfg.base_num_decoder_layers):
                x_BLE, _ = layer_type(cfg, name=f"layers_{i}")(x_BLE, jnp.int32(i), key)
        x_BLE = core.dropout(RMSNorm(cfg, name="decoder_norm")(x_BLE), cfg, key, "decoder_norm")
        shape, axes = (cfg.base_emb_dim, cfg.vocab_size), ("embed_vocab", "vocab")
        head = Projection(cfg, "BLE,EV->BLV", shape, axes, INITIALIZERS["logits_dense"], name="logits_dense")
        return constrain(head(x_BLE), "activation_batch", "activation_length", "activation_vocab")


class Decoder(nn.Module):
    """Tokens to logits. `key` holds seed and step; dropout folds in its layer and its site."""

    config: TrainConfig

    @nn.compact
    def __call__(self, tokens_BL: jax.Array, key: jax.Array) -> jax.Array:
        x_BLE = TokenEmbedder(self.config, name="token_embedder")(tokens_BL)
        x_BLE = core.dropout(x_BLE, self.config, key, "token_embedder")
        x_BLE = constrain(x_BLE, "activation_batch", "activation_length", "activation_embed")
        return DecoderStack(self.config, name="decoder")(x_BLE, key)
