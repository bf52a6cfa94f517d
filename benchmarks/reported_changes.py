"""Changes of the kinds that public bug reports describe, chosen before anyone looked at how roots are found.

They are in both decoders and in a stranger's trainer. The line to name is the changed one, or the first line that
computes with the changed value.
"""

from benchmarks.planted_changes import (
    ATTENTION,
    EXPERTS,
    KEPT,
    LAYERS,
    LOSS,
    NORM,
    OBJECTIVE,
    OPTIMIZER,
    UPDATE,
    PlantedChange,
)  # fmt: skip

NNX = "model/decoder/decoder_nnx.py"
UPDATE_NNX = "state.optimizer.update("
TOTAL = "return jax.tree.map(jnp.add, total"
LABELS = "output.kernel_EV, batch.targets, weights)"
PACKED = "08_packing"


def of_nnx(
    name: str, file: str, old: str, new: str, line: str, case: str = "16_f32_exact", set: tuple[str, ...] = ()
) -> PlantedChange:
    """Return a change whose arms are the trainer in NNX."""
    return PlantedChange(name, file, old, new, line, case, set, arm="nnx")


def of_stranger(name: str, file: str, old: str, new: str, line: str, script: str = "train") -> PlantedChange:
    """Return a change of a stranger's trainer."""
    return PlantedChange(name, f"{file}.py", old, new, line, "a stranger's", script=script)


REPORTED = (
    # attention and positions
    of_nnx(
        "queries scaled twice", NNX, 'layers.rotary(project("query"), context)',
        'layers.rotary(project("query"), context) * self.config.head_dim**-0.5', "query_BLHK = layers.rotary(",
    ),
    PlantedChange(
        "rope base of another model", LAYERS, "timescale = config.rope_max_timescale **", "timescale = 500_000.0 **",
        "timescale =",
    ),
    PlantedChange(
        "rope of neighbouring channels", LAYERS, "first, second = jnp.split(x_BLHK, 2, axis=-1)",
        "first, second = x_BLHK[..., ::2], x_BLHK[..., 1::2]", "first, second =",
    ),
    of_nnx(
        "positions interpolated by 2", NNX, "layers.make_context(cfg, positions_BL,",
        "layers.make_context(cfg, positions_BL / 2,", "context = layers.make_context(",
    ),
    PlantedChange(
        "a sliding window of 32", ATTENTION, "dtype=jnp.bool_))[None]",
        "dtype=jnp.bool_))[None] & ~jnp.tril(jnp.ones((length, length), dtype=jnp.bool_), -32)[None]",
        "causal_BLS = jnp.tril(",
    ),
    of_nnx(
        "segments are not masked", ATTENTION, "    if segment_ids_BL is None:\n        return causal_BLS\n",
        "    if True:\n        return causal_BLS\n", "return causal_BLS & (", PACKED,
    ),
    of_nnx(
        "the shared key of latent attention is not rotated", LAYERS,
        "jnp.repeat(rotary(rope_key_BLK[:, :, None, :], context), heads, axis=2)",
        "jnp.repeat(rope_key_BLK[:, :, None, :], heads, axis=2)", "key_rope = jnp.repeat(", "07_mla",
    ),
    # norms, residuals, the MLP, embeddings
    of_nnx(
        "the norms ignore the configured epsilon", NNX, "cfg.normalization_layer_epsilon, cfg.dtype)",
        "1e-6, cfg.dtype)", NORM,
    ),
    of_nnx(
        "a norm is skipped", NNX, "self.mlp(self.post_self_attention_layer_norm(x_BLE), key)", "self.mlp(x_BLE, key)",
        "changed_BLE, losses = self.mlp(",
    ),
    of_nnx(
        "no gradient through the residual", NNX, "x_BLE = x_BLE + self.self_attention(",
        "x_BLE = jax.lax.stop_gradient(x_BLE) + self.self_attention(", "+ self.self_attention(",
    ),
    of_nnx("gelu in place of silu", NNX, "jax.nn.silu(widen", "jax.nn.gelu(widen", "hidden_BLF = jax.nn"),
    of_nnx(
        "embedding × √E", NNX, "layers.look_up(self.embedding[...].astype(self.config.dtype), tokens_BL)",
        "layers.look_up(self.embedding[...].astype(self.config.dtype), tokens_BL) * self.config.base_emb_dim**0.5",
        "return layers.look_up(self.embedding",
    ),
    of_stranger(
        "a bias is not added", "common", ' + params["hidden"]["bias"])', ")", "x = x + jnp.tanh("
    ),
    # the loss
    of_nnx(
        "padding counts in the mean", OBJECTIVE, "Share(1 / total_weights(batch), 1 / parts)",
        "Share(1 / batch.weights.size, 1 / parts)", "share = Share(1 /", PACKED,
    ),
    PlantedChange(
        "mean of the parts' means", OBJECTIVE, "gradients_of(part, share, ",
        "gradients_of(part, Share(1 / (parts * total_weights(part)), 1 / parts), ", TOTAL, PACKED,
        ("gradient_accumulation_steps=2", "per_device_batch_size=2"),
    ),
    PlantedChange("labels shifted twice", OBJECTIVE, LABELS, LABELS.replace(
        "batch.targets", "jnp.roll(batch.targets, -1, axis=1)"), "lm_loss = cross_entropy("),
    PlantedChange("labels in int8", OBJECTIVE, LABELS, LABELS.replace(
        "batch.targets", "batch.targets.astype(jnp.int8).astype(jnp.int32)"), "lm_loss = cross_entropy("),
    PlantedChange(
        "z-loss in the gradient alone", LOSS, "((softmax_BLW - (",
        "((softmax_BLW * (1 + 2e-4 * log_normalizer_BL[:, :, None]) - (", "lm_loss = cross_entropy(",
    ),
    PlantedChange(
        "logits capped at 30", LOSS, 'jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV)',
        '30.0 * jnp.tanh(jnp.einsum("BLE,EV->BLV", x_BLE, kernel_EV) / 30.0)', "logits_BLV = 30.0",
    ),
    # dropout
    of_nnx(
        "kept units are not scaled", LAYERS, "(x_BLE.astype(jnp.float32) / keep)", "x_BLE.astype(jnp.float32)",
        "scaled_BLE =", "03_dropout",
    ),
    of_nnx(
        "two sites of dropout share a key", NNX, 'layers.dropout(hidden_BLF, self.config, key, "mlp")',
        'layers.dropout(hidden_BLF, self.config, key, "layer")', KEPT, "03_dropout",
    ),
    of_nnx(
        "all parts of a batch drop the same units", OBJECTIVE, "jax.random.fold_in(key, number))", "key)", TOTAL,
        "03_dropout", ("gradient_accumulation_steps=2", "per_device_batch_size=2"),
    ),
    # experts
    of_nnx(
        "the router's sigmoid in place of softmax", EXPERTS,
        "jax.nn.softmax(logits_BLN.astype(jnp.float32), axis=-1)", "jax.nn.sigmoid(logits_BLN.astype(jnp.float32))",
        "probabilities_BLN = jax.nn", "06_moe",
    ),
    of_nnx(
        "weights of the experts are not normalised", EXPERTS, "if config.norm_topk_prob:",
        "if not config.norm_topk_prob:", "weights_BLk /= jnp.sum(", "06_moe",
    ),
    of_nnx(
        "load-balance loss summed over layers", NNX, '{"moe_lb_loss": loss / layers.moe_layers(cfg)}',
        '{"moe_lb_loss": loss * 1.0}', "return layers.dropout(routed_BLE", "06_moe",
    ),
    PlantedChange(
        "auxiliary losses are not minimised", OBJECTIVE, "return sum(auxiliary.values(), lm_loss), {",
        "return lm_loss, {", "return sum(auxiliary.values(), lm_loss)", "06_moe",
    ),
    # clipping, the optimizer, averages
    of_nnx(
        "each array is clipped alone", OPTIMIZER, "lambda x: x * factor.astype(x.dtype)",
        "lambda x: x * jnp.minimum(1.0, limit / jnp.linalg.norm(x))", "return Clipped(jax.tree.map(lambda x:",
        set=("gradient_clipping_threshold=0.1",),
    ),
    of_nnx(
        "no weight decay of the embedding", OPTIMIZER, "weight_decay=config.adam_weight_decay,",
        "weight_decay=config.adam_weight_decay, mask=lambda tree: jax.tree_util.tree_map_with_path("
        'lambda path, _: "embedding" not in jax.tree_util.keystr(path), tree),', UPDATE_NNX,
    ),
    PlantedChange(
        "the warm-up begins above 0", OPTIMIZER, "optax.linear_schedule(0.0,", "optax.linear_schedule(peak / warmup,",
        UPDATE, set=("warmup_steps_fraction=0.5",),
    ),
    of_stranger(
        "clipped by value", "train", "optax.clip_by_global_norm(1.0)", "optax.clip(0.001)", "updates, moments = "
    ),
    of_stranger(
        "the average of the weights forgets slower", "train", "0.99 * old + 0.01 * new", "0.999 * old + 0.001 * new",
        "average = jax.tree.map(",
    ),
    of_stranger(
        "half the gradient in a second function", "split", "optimizer.update(gradients, moments, params)",
        "optimizer.update(jax.tree.map(lambda x: x / 2, gradients), moments, params)", "updates, moments = optimizer",
        "split",
    ),
)  # fmt: skip
