"""Changes of the computation, as edits of the trainer's source, each with the line that an explanation must name first.

Most change the loss of the first steps by less than bfloat16's rounding, many by less than float32's. A constant that
bfloat16 rounds to its neighbour is no change: 1.0003 times a bfloat16 array is 1 times the array.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
STRANGER = Path(__file__).parent / "plants/stranger_trainer"
LAYERS, ATTENTION = "model/decoder/layers.py", "model/decoder/attention.py"
DECODER, PRODUCTS = "model/decoder/decoder_linen.py", "model/decoder/contraction.py"
EXPERTS, LOSS = "model/decoder/experts.py", "model/train/loss.py"
OBJECTIVE, OPTIMIZER = "model/train/objective.py", "model/train/optimizer.py"
TRAINER = "model/train/trainer_linen.py"
UPDATE = "after = state.apply_gradients("  # the trainer's line that calls optax
# a function of the value x that multiplies only its gradient by a factor
SCALE_GRADIENT = "{x} * {factor} + jax.lax.stop_gradient({x} * (1 - {factor}))"


# a result that is right on the first device only
DRIFT = """after = state.apply_gradients(grads=clipped.gradients)
        whole, names = jax.sharding.PartitionSpec(), jax.sharding.get_abstract_mesh().axis_names

        def move(x: jax.Array) -> jax.Array:
            return x * (1 + 1e-3 * jax.lax.axis_index(names))

        drift = jax.shard_map(move, in_specs=whole, out_specs=whole, check_vma=False)
        after = after.replace(params=jax.tree.map(lambda x: drift(x) if x.ndim == 1 else x, after.params))"""


class PlantedChange(NamedTuple):
    """An edit of one file of the trainer."""

    name: str
    file: str
    old: str  # occurs once in the file
    new: str
    line: str  # text of the line to name, in the source of one of the arms
    case: str = "16_f32_exact"
    set: tuple[str, ...] = ()  # further settings of both arms
    target: str = "cpu"
    arm: str = "linen"  # both arms' trainer: "linen" or "nnx"
    script: str = ""  # both arms' script of the stranger's trainer, which has the file; "": our trainer


NORM, MEAN_LOSS = "normed = (wide *", "loss = jnp.sum((log"
COSINE, PROGRESS = "return peak * share", "progress = jnp.asarray(step)"
LOGITS = 'logits_BHLS = jnp.einsum("BLHK,BSHK->BHLS"'
# JAX gives the operations of a backward rule, and of a forward rule inside a `jax.checkpoint`, the line of the call
ATTEND, CONTRACT = "return attend(query_BLHK", "return contract(self.product"
KEPT = "kept_B1E = jax.random.bernoulli("
ONE_LAYER = SCALE_GRADIENT.format(x="changed_BLE", factor="jnp.where(layer == 1, 1.0005, 1.0).astype(cfg.dtype)")
DISPATCHED = "output_TE: jax.Array = everywhere("

PLANTED = (
    # the layers
    PlantedChange("epsilon of the norms × 0.1", LAYERS, "mean_square + epsilon", "mean_square + 0.1 * epsilon", NORM),
    PlantedChange(
        "epsilon of the norms × 0.1, bf16", LAYERS, "mean_square + epsilon", "mean_square + 0.1 * epsilon", NORM,
        "01_base",
    ),
    PlantedChange(
        "epsilon outside of the root", LAYERS, "jax.lax.rsqrt(mean_square + epsilon)",
        "(1 / (jnp.sqrt(mean_square) + epsilon))", NORM,
    ),
    PlantedChange(
        "scale of the norms × 1.0001, bf16", LAYERS, "normed * scale_E.astype(dtype)",
        "normed * (1.0001 * scale_E).astype(dtype)", "return normed *", "01_base",
    ),
    PlantedChange(
        "rope base + 1", LAYERS, "timescale = config.rope_max_timescale **",
        "timescale = (config.rope_max_timescale + 1) **", "timescale =",
    ),
    PlantedChange("rope exponents − 0.1 %", LAYERS, "float32) / half)", "float32) / (1.001 * half))", "timescale ="),
    PlantedChange(
        "rotation of half the channels × 1.0002", LAYERS, "second * cos + first * sin]",
        "second * cos + first * (1.0002 * sin)]", "return jnp.concatenate([first * cos",
    ),
    PlantedChange(
        "gate of the MLP × 1.0002", DECODER, 'jax.nn.silu(widen("wi_0"))', 'jax.nn.silu(1.0002 * widen("wi_0"))',
        "hidden_BLF = jax.nn.silu(",
    ),
    PlantedChange(
        "residual of the attention × 1.01, int8", DECODER, "x_BLE + attention(", "x_BLE + 1.01 * attention(",
        "x_BLE + 1.01 * attention(", "04_int8",
    ),
    PlantedChange(
        "embedding × 1.0001", DECODER, "embedding_VE.astype(cfg.dtype), tokens_BL",
        "(1.0001 * embedding_VE).astype(cfg.dtype), tokens_BL", "layers.look_up((1.0001 * embedding_VE)",
    ),
    # attention
    PlantedChange(
        "scale of the attention × 1.001", ATTENTION, LOGITS, LOGITS.replace("jnp", "1.001 * jnp"), ATTEND
    ),
    PlantedChange(
        "mask off by one", ATTENTION, "dtype=jnp.bool_))[None]", "dtype=jnp.bool_), 1)[None]", "causal_BLS = jnp.tril("
    ),
    PlantedChange("a masked key counts with exp(−20)", ATTENTION, "MASKED = -2.0e38", "MASKED = -20.0", ATTEND),
    PlantedChange(
        "a text sees the texts before it", ATTENTION, "segment_ids_BL[:, :, None] == ",
        "segment_ids_BL[:, :, None] >= ", "return causal_BLS & (segment_ids_BL", "08_packing",
    ),
    PlantedChange(
        "gradient of the softmax − 0.1 % of its mean", ATTENTION, "(grad_weights_BHLS - mean_BHL[..., None])",
        "(grad_weights_BHLS - 0.999 * mean_BHL[..., None])", ATTEND,
    ),
    PlantedChange(
        "gradient of the values × 1.0005", ATTENTION, 'grad_value_BHKS = jnp.einsum("BLHK',
        'grad_value_BHKS = 1.0005 * jnp.einsum("BLHK', ATTEND,
    ),
    PlantedChange(
        "scale of latent attention without the rotary part", LAYERS, "(nope + rope) ** -0.5", "nope ** -0.5",
        "scaled_BLHK = (query_BLHK", "07_mla",
    ),
    # gradients
    PlantedChange(
        "gradient of wo × 1.0005", PRODUCTS, '{kernel_term}", x, gradient),',
        '{kernel_term}", x, gradient) * (1.0005 if kernel_term == "FE" else 1.0),', CONTRACT,
    ),
    PlantedChange(
        "gradient × 1.0005 in one layer", DECODER, "        x_BLE = layers.dropout(x_BLE + changed_BLE,",
        f"        changed_BLE = {ONE_LAYER}\n        x_BLE = layers.dropout(x_BLE + changed_BLE,",
        "jnp.where(layer == 1, 1.0005",
    ),
    PlantedChange(
        "no gradient through the keys", DECODER, 'layers.rotary(project("key", G, kv_axes), context)',
        'jax.lax.stop_gradient(layers.rotary(project("key", G, kv_axes), context))', "key_BLGK = jax.lax.stop_gradient",
    ),
    PlantedChange(
        "no gradient through the gate, bf16", DECODER, 'jax.nn.silu(widen("wi_0"))',
        'jax.nn.silu(jax.lax.stop_gradient(widen("wi_0")))', "hidden_BLF = jax.nn.silu(", "01_base",
    ),
    PlantedChange(
        "no accumulator starts at 0", OBJECTIVE, "jnp.zeros(x.shape, x.dtype)", "jnp.full(x.shape, 1e-9, x.dtype)",
        "zeros = jax.tree.map(", "05_grad_accum",
    ),
    PlantedChange(
        "128 becomes 127 in int8", PRODUCTS, "jnp.maximum(quantized.qvalue, -127)",
        "jnp.maximum(quantized.qvalue, -126)", CONTRACT, "04_int8",
    ),
    # the loss
    PlantedChange(
        "a token's weight × 1.001", OBJECTIVE, "batch.weights.astype(jnp.float32) * share.weight",
        "batch.weights.astype(jnp.float32).at[0, 0].mul(1.001) * share.weight", "weights = batch.weights.astype(",
    ),
    PlantedChange(
        "a token's weight × 1.001 in the loss alone", LOSS, "target_logit_BL) * weights_BL)",
        "target_logit_BL) * weights_BL.at[0, 0].mul(1.001))", MEAN_LOSS,
    ),
    PlantedChange(
        "one token more in the mean", OBJECTIVE, "share = Share(1 / total_weights(batch),",
        "share = Share(1 / (total_weights(batch) + 1),", "share = Share(1 /",
    ),
    PlantedChange(
        "z-loss of 1e-6", LOSS, "    loss = jnp.sum((log_normalizer_BL - target_logit_BL) * weights_BL)",
        "    loss = jnp.sum((log_normalizer_BL + 1e-6 * log_normalizer_BL**2 - target_logit_BL) * weights_BL)",
        MEAN_LOSS,
    ),
    PlantedChange(
        "labels smoothed by 0.01 %", LOSS, "(softmax_BLW - (tokens", "(softmax_BLW - 0.9999 * (tokens",
        "lm_loss = cross_entropy(",
    ),
    PlantedChange(
        "logits × 1.01, bf16", LOSS, 'logits_BLV = jnp.einsum("BLE', 'logits_BLV = 1.01 * jnp.einsum("BLE',
        "logits_BLV = 1.01", "01_base",
    ),
    # random numbers
    PlantedChange(
        "seed of one dropout site", LAYERS, "fold_in(key, site_number(site))",
        'fold_in(key, site_number(site) + (site == "mlp"))', KEPT, "03_dropout",
    ),
    PlantedChange(
        "all layers drop the same units", DECODER, "layers.fold_in(context.key, layer)",
        "layers.fold_in(context.key, 0)", "jax.random.fold_in(key, number)", "03_dropout",
    ),
    PlantedChange(
        "the key of the next step", OBJECTIVE, "jax.random.key(config.init_weights_seed), step)",
        "jax.random.key(config.init_weights_seed), step + 1)", "jax.random.key(config.init_weights_seed), step",
        "03_dropout",
    ),
    PlantedChange(
        "kept units divided by 0.905", LAYERS, ".astype(jnp.float32) / keep)", ".astype(jnp.float32) / (keep + 0.005))",
        "scaled_BLE = (x_BLE", "03_dropout",
    ),
    PlantedChange("dropout of 0.11", LAYERS, "keep = 1.0 - config", "keep = 0.99 - config", KEPT, "03_dropout"),
    # experts
    PlantedChange(
        "weights of the experts add up to 1 − 1e-6", EXPERTS, "axis=-1, keepdims=True)\n    density",
        "axis=-1, keepdims=True) + 1e-6\n    density", "weights_BLk /= jnp.sum(", "06_moe",
    ),
    PlantedChange(
        "probability of one expert × 1.001", EXPERTS, "jax.lax.top_k(probabilities_BLN, chosen)",
        "jax.lax.top_k(probabilities_BLN.at[..., 0].mul(1.001), chosen)", "jax.lax.top_k(", "06_moe",
    ),
    PlantedChange(
        "no gradient to the router", EXPERTS, "jax.lax.top_k(probabilities_BLN, chosen)",
        "jax.lax.top_k(jax.lax.stop_gradient(probabilities_BLN), chosen)", "jax.lax.top_k(", "06_moe",
    ),
    PlantedChange(
        "load-balance loss × 1.0001", EXPERTS, "* count**2 *", "* 1.0001 * count**2 *", "loss = jnp.mean(density_BN",
        "06_moe",
    ),
    PlantedChange(
        "a lost reduction over the experts' devices", EXPERTS,
        'jax.lax.psum_scatter(output_TE, "expert", scatter_dimension=0, tiled=True)',
        'jnp.split(output_TE, 4)[0] + 0 * jax.lax.axis_index("expert").astype(output_TE.dtype)', DISPATCHED,
        "06_moe", ("ici_expert_parallelism=4", "dtype=float32"), "cpu-8",
    ),
    # clipping and the optimizer
    PlantedChange(
        "clipping divides by norm + 1e-6", OPTIMIZER, "limit / norm)", "limit / (norm + 1e-6))",
        "factor = jnp.minimum(",
        set=("gradient_clipping_threshold=0.1",),
    ),
    PlantedChange(
        "clipping to 1.0001 of the threshold", OPTIMIZER, "limit / norm)", "1.0001 * limit / norm)",
        "factor = jnp.minimum(",
        set=("gradient_clipping_threshold=0.1",),
    ),
    PlantedChange(
        "the norm leaves one gradient out", OPTIMIZER, "norm, limit = optax.tree.norm(gradients),",
        "norm, limit = optax.tree.norm(jax.tree.leaves(gradients)[1:]),", "norm, limit = optax.tree.norm(",
    ),
    PlantedChange("adam_b1 + 0.0005", OPTIMIZER, "b1=config.adam_b1", "b1=config.adam_b1 + 0.0005", UPDATE),
    PlantedChange("adam_b2 + 0.001", OPTIMIZER, "b2=config.adam_b2", "b2=config.adam_b2 + 0.001", UPDATE),
    PlantedChange("adam_eps × 1.1", OPTIMIZER, "eps=config.adam_eps,", "eps=1.1 * config.adam_eps,", UPDATE),
    PlantedChange("adam_eps_root of 1e-16", OPTIMIZER, "config.adam_eps_root", "config.adam_eps_root + 1e-16", UPDATE),
    PlantedChange(
        "weight decay + 0.1 %", OPTIMIZER, "weight_decay=config", "weight_decay=1.001 * config", UPDATE, "01_base"
    ),
    PlantedChange(
        "no weight decay of the last norm", OPTIMIZER, "weight_decay=config.adam_weight_decay,",
        "weight_decay=config.adam_weight_decay, mask=lambda tree: jax.tree.map(lambda x: x.ndim > 1, tree),", UPDATE,
    ),
    PlantedChange(
        "Nesterov's momentum", OPTIMIZER, "weight_decay=config.adam_weight_decay,",
        "weight_decay=config.adam_weight_decay, nesterov=True,", UPDATE,
    ),
    PlantedChange(
        "the last norm drifts on devices 1 to 7", TRAINER, "after = state.apply_gradients(grads=clipped.gradients)",
        DRIFT, "lambda x: drift(x)", "01_base", target="cpu-8",  # tensors name a shard_map by the line of its call
    ),
    # the schedule
    PlantedChange(
        "learning rate × 1.0001 after the warm-up", OPTIMIZER, "return peak * share", "return 1.0001 * peak * share",
        COSINE
    ),
    PlantedChange("the cosine ends one step later", OPTIMIZER, "/ (decay - 1) if", "/ decay if", PROGRESS),
    PlantedChange(
        "final share of the learning rate + 0.001", OPTIMIZER, "final * (1.0 - share)",
        "(final + 0.001 * peak) * (1.0 - share)", COSINE,
    ),
)  # fmt: skip


def source_of(change: PlantedChange) -> Path:
    """Return the folder of the trainer's source."""
    return STRANGER if change.script else ROOT


def edit(change: PlantedChange) -> str:
    """Return the text of the changed file. Raises ValueError if the text to replace does not occur once."""
    text = (source_of(change) / change.file).read_text(encoding="utf-8")
    if text.count(change.old) != 1:
        raise ValueError(f"{change.file}: has {text.count(change.old)} times: {change.old}")
    return text.replace(change.old, change.new)


def plant(change: PlantedChange, tree: Path) -> Path:
    """Copy the trainer's source into the folder `tree`, with a planted change; return `tree`."""
    left_out = shutil.ignore_patterns("__pycache__")
    if change.script:
        shutil.copytree(STRANGER, tree, ignore=left_out)
    else:
        for package in ("configs", "model"):
            shutil.copytree(ROOT / package, tree / package, ignore=left_out)
    (tree / change.file).write_text(edit(change), encoding="utf-8")
    return tree
