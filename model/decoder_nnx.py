"""The decoder in Flax NNX: turns tokens into logits. Twin of `decoder_linen.py`: the same classes in the same order."""

import jax
import jax.numpy as jnp
from flax import nnx

from configs.schema import TrainConfig
from model import core
from model.initializers import INITIALIZERS, Initializer
from model.sharding import constrain


class RMSNorm(nnx.Module):
    """Root-mean-square norm over E with a learned scale."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = config
        value = INITIALIZERS["norm"](rngs.params(), (config.base_emb_dim,), jnp.dtype(config.weight_dtype))
        self.scale = nnx.Param(value, out_sharding=("norm",), eager_sharding=False)

    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        return core.rms_norm(x_BLE, self.scale[...], self.config.normalization_layer_epsilon, self.config.dtype)


class Projection(nnx.Module):
    """A matmul with a learned kernel, written as an einsum equation."""

    def __init__(
        self,
        config: TrainConfig,
        equation: str,
        shape: tuple[int, ...],
        axes: tuple[str, ...],
        kernel_init: Initializer,
        *,
        rngs: nnx.Rngs,
    ):
        self.config = config
        self.equation = equation
        value = kernel_init(rngs.params(), shape, jnp.dtype(config.weight_dtype))
        self.kernel = nnx.Param(value, out_sharding=axes, eager_sharding=False)

    def __call__(self, x: jax.Array) -> jax.Array:
        return core.contract(self.equation, x, self.kernel[...].astype(self.config.dtype))


class TokenEmbedder(nnx.Module):
    """One learned vector per token."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = config
        shape = (config.vocab_size, config.base_emb_dim)
        value = INITIALIZERS["token_embedder"](rngs.params(), shape, jnp.dtype(config.weight_dtype))
        self.embedding = nnx.Param(value, out_sharding=("vocab", "embed_vocab"), eager_sharding=False)

    def __call__(self, tokens_BL: jax.Array) -> jax.Array:
        return self.embedding[...].astype(self.config.dtype)[tokens_BL]


class Attention(nnx.Module):
    """Causal self-attention with rotary embeddings."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        E, H, K = cfg.base_emb_dim, cfg.base_num_query_heads, cfg.head_dim
        kv_axes = ("embed", "kv_heads", "kv_head_dim")

        def projection(name: str, axes: tuple[str, ...]) -> Projection:
            return Projection(cfg, "BLE,EHK->BLHK", (E, H, K), axes, INITIALIZERS[name], rngs=rngs)

        self.query = projection("query", ("embed", "q_heads", "kv"))
        self.key = projection("key", kv_axes)
        self.value = projection("value", kv_axes)
        self.out = Projection(cfg, "BLHK,HKE->BLE", (H, K, E), ("heads", "kv", "embed"), INITIALIZERS["out"], rngs=rngs)

    def __call__(self, x_BLE: jax.Array) -> jax.Array:
        cfg = self.config

        def project(projection: Projection) -> jax.Array:
            heads = projection(x_BLE)
            return constrain(heads, "activation_batch", "activation_length", "activation_heads", "activation_kv")

        query_BLHK = core.rotary(project(self.query), cfg.rope_max_timescale)
        key_BLHK = core.rotary(project(self.key), cfg.rope_max_timescale)
        attended_BLHK = core.attend(query_BLHK, key_BLHK, project(self.value))
        return self.out(attended_BLHK)


class MLP(nnx.Module):
    """Gated MLP: silu(x·wi_0) ⊙ (x·wi_1), dropped out, times wo (Shazeer 2020)."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        E, F = cfg.base_emb_dim, cfg.base_mlp_dim

        def widening(name: str) -> Projection:
            return Projection(cfg, "BLE,EF->BLF", (E, F), ("embed", "mlp"), INITIALIZERS[name], rngs=rngs)

        self.wi_0 = widening("wi_0")
        self.wi_1 = widening("wi_1")
        self.wo = Projection(cfg, "BLF,FE->BLE", (F, E), ("mlp", "embed"), INITIALIZERS["wo"], rngs=rngs)

    def __call__(self, x_BLE: jax.Array, key: jax.Array) -> jax.Array:
        hidden_BLF = jax.nn.silu(self.wi_0(x_BLE)) * self.wi_1(x_BLE)
        hidden_BLF = constrain(hidden_BLF, "activation_batch", "activation_length", "activation_mlp")
        hidden_BLF = core.dropout(hidden_BLF, self.config, key, "mlp")
        return self.wo(hidden_BLF)


class DecoderLayer(nnx.Module):
    """Attention and MLP, each behind its norm and around the residual stream."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.pre_self_attention_layer_norm = RMSNorm(config, rngs=rngs)
        self.self_attention = Attention(config, rngs=rngs)
        self.post_self_attention_layer_norm = RMSNorm(config, rngs=rngs)
        self.mlp = MLP(config, rngs=rngs)

    def __call__(self, x_BLE: jax.Array, layer: jax.Array, key: jax.Array) -> jax.Array:
        key = jax.random.fold_in(key, layer)
        x_BLE = x_BLE + self.self_attention(self.pre_self_attention_layer_norm(x_BLE))
        x_BLE = x_BLE + self.mlp(self.post_self_attention_layer_norm(x_BLE), key)
        x_BLE = core.dropout(x_BLE, self.config, key, "layer")
        return constrain(x_BLE, "activation_batch", "activation_length", "activation_embed")


class DecoderStack(nnx.Module):
    """All layers, the last norm and the projection to logits. Layers are one scanned module, or one module each."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = cfg = config
        if cfg.scan_layers:

            @nnx.split_rngs(splits=cfg.base_num_decoder_layers)
            @nnx.vmap(out_axes=cfg.param_scan_axis, transform_metadata={nnx.PARTITION_NAME: "layers"})
            def make_layers(rngs: nnx.Rngs) -> DecoderLayer:
                return DecoderLayer(cfg, rngs=rngs)

            self.layers = make_layers(rngs)
        else:
            for i in range(cfg.base_num_decoder_layers):
                setattr(self, f"layers_{i}", DecoderLayer(cfg, rngs=rngs))
        self.decoder_norm = RMSNorm(cfg, rngs=rngs)
        shape, axes = (cfg.base_emb_dim, cfg.vocab_size), ("embed_vocab", "vocab")
        self.logits_dense = Projection(cfg, "BLE,EV->BLV", shape, axes, INITIALIZERS["logits_dense"], rngs=rngs)

    def __call__(self, x_BLE: jax.Array, key: jax.Array) -> jax.Array:
        cfg = self.config

        def run_layer(module: DecoderLayer, x_BLE: jax.Array, layer: jax.Array, key: jax.Array) -> jax.Array:
            return module(x_BLE, layer, key)

        if cfg.remat_policy != "none":
            # inside a scan XLA cannot merge the recomputation with the forward pass anyway
            run_layer = nnx.remat(run_layer, prevent_cse=not cfg.scan_layers, policy=core.remat_policy(cfg))
        if cfg.scan_layers:
            scanned = nnx.scan(
                run_layer,
                in_axes=(cfg.param_scan_axis, nnx.Carry, 0, None),
                out_axes=nnx.Carry,
                length=cfg.base_num_decoder_layers,
                transform_metadata={nnx.PARTITION_NAME: "layers"},
            )
            x_BLE = scanned(self.layers, x_BLE, jnp.arange(cfg.base_num_decoder_layers), key)
        else:
            for i in range(cfg.base_num_decoder_layers):
                x_BLE = run_layer(getattr(self, f"layers_{i}"), x_BLE, jnp.int32(i), key)
        x_BLE = core.dropout(self.decoder_norm(x_BLE), cfg, key, "decoder_norm")
        return constrain(self.logits_dense(x_BLE), "activation_batch", "activation_length", "activation_vocab")


class Decoder(nnx.Module):
    """Tokens to logits. `key` holds seed and step; dropout folds in its layer and its site."""

    def __init__(self, config: TrainConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.token_embedder = TokenEmbedder(config, rngs=rngs)
        self.decoder = DecoderStack(config, rngs=rngs)

    def __call__(self, tokens_BL: jax.Array, key: jax.Array) -> jax.Array:
        x_BLE = self.token_embedder(tokens_BL)
        x_BLE = core.dropout(x_BLE, self.config, key, "token_embedder")
        x_BLE = constrain(x_BLE, "activation_batch", "activation_length", "activation_embed")
        return self.decoder(x_BLE, key)
