"""Innocent changes: refactorings, comments, logging, other rounding, another order of rows."""

from benchmarks.benign_changes import EXPONENTS, MEAN, ROOT, SOFTMAX, TRANSPOSED
from benchmarks.plants.ours import (
    ATTENTION,
    BATCH,
    DATA,
    DECODER,
    EVALUATION,
    FACTOR,
    LAYERS,
    LOOP,
    LOSS,
    NEXT,
    NORM,
    OBJECTIVE,
    OPTIMIZER,
    SCALED,
    STEP,
    TRAINER,
    from_call,
)  # fmt: skip
from benchmarks.plants.plant import CALM, EQUAL, FUNCTION, Edit, Plant, Rename
from benchmarks.plants.stranger import INNOCENT as OF_STRANGER

ADAMW = """return optax.adamw(
        make_schedule(config),
        b1=config.adam_b1,
        b2=config.adam_b2,
        eps=config.adam_eps,
        eps_root=config.adam_eps_root,
        weight_decay=config.adam_weight_decay,
    )"""
WRITTEN_OUT = """return optax.chain(
        optax.scale_by_adam(config.adam_b1, config.adam_b2, config.adam_eps, config.adam_eps_root),
        optax.add_decayed_weights(config.adam_weight_decay),
        optax.scale_by_learning_rate(make_schedule(config)),
    )"""
SHARE = '''def share_heads(x_BSGK: jax.Array, heads: int) -> jax.Array:
    """Repeat each key or value head for the neighbouring query heads that share it (Ainslie et al. 2023)."""
    return x_BSGK if x_BSGK.shape[2] == heads else jnp.repeat(x_BSGK, heads // x_BSGK.shape[2], axis=2)


'''
NORMED = "normed = (wide * jax.lax.rsqrt(mean_square + epsilon)).astype(dtype)"
ROTATED = "    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)"
LOSSES = (
    "    return {name: sum((jnp.sum(losses[name]) for losses in found if name in losses), jnp.float32(0)) "
    "for name in names}"
)
REVERSED = "jax.tree.map(lambda x: x[::-1], self.batch)"
BLOCK = 'grad_x_BLE += jnp.einsum("BLW,EW->BLE", grad_logits_BLW, kernel_EW).astype(jnp.float32)'
MEASURED = '        "param_norm": optax.tree.norm(params),'


def innocent(name: str, *edits: Edit | Rename, command: str = FUNCTION) -> Plant:
    """Return an innocent change."""
    return Plant(name, "innocent", edits, "", "the same function", command, EQUAL)


INNOCENT = (
    innocent(
        "a comment",
        Edit(
            OPTIMIZER, "    length = schedule_steps(config)\n", "    # in steps\n    length = schedule_steps(config)\n",
        ),
    ),
    innocent(
        "a docstring",
        Edit(LAYERS, "in float32, then scale in `dtype` (Zhang", "in float32; then scale in `dtype` (Zhang"),
    ),
    innocent(
        "layout of a statement",
        Edit(OPTIMIZER, FACTOR, "factor = jnp.minimum(\n        1.0,\n        limit / norm,\n    )"),
    ),
    innocent(
        "a local name", Edit(LAYERS, "    normed = (wide", "    root = (wide"),
        Edit(LAYERS, "return normed * scale", "return root * scale"),
    ),
    innocent(
        "a function renamed", Edit(OPTIMIZER, "def clip(", "def clip_gradients("),
        Edit(TRAINER, "import clip,", "import clip_gradients,"), Edit(TRAINER, "= clip(", "= clip_gradients("),
        Edit("model/train/trainer_nnx.py", "import clip,", "import clip_gradients,"),
        Edit("model/train/trainer_nnx.py", "= clip(", "= clip_gradients("),
    ),
    innocent(
        "a file renamed", Rename(LOSS, "model/train/cross_entropy.py"),
        Edit(OBJECTIVE, "model.train.loss import", "model.train.cross_entropy import"),
    ),
    innocent(
        "a function moved", Edit(ATTENTION, SHARE, ""),
        Edit(ATTENTION, "@jax.custom_vjp\ndef attend(", f"{SHARE}@jax.custom_vjp\ndef attend("),
    ),
    innocent(
        "a helper taken out", Edit(LAYERS, NORMED, "normed = (wide * root_of(mean_square, epsilon)).astype(dtype)"),
        Edit(
            LAYERS, "def rms_norm(",
            "def root_of(square: jax.Array, epsilon: float) -> jax.Array:\n"
            "    return jax.lax.rsqrt(square + epsilon)\n\n\ndef rms_norm(",
        ),
    ),
    innocent(
        "an unused function",
        Edit(LAYERS, "def rms_norm(", "def halve(x: jax.Array) -> jax.Array:\n    return 0.5 * x\n\n\ndef rms_norm("),
    ),
    innocent("an assertion", Edit(OPTIMIZER, NORM, f"    assert config.gradient_clipping_threshold < 1e9\n{NORM}")),
    innocent("a log line in the loop", Edit(LOOP, BATCH, f'{BATCH}\n        logging.debug("a batch")')),
    innocent(
        "a loop in place of a comprehension",
        Edit(
            LAYERS, LOSSES,
            "    sums = {}\n    for name in names:\n        sums[name] = sum((jnp.sum(losses[name]) for losses in "
            "found if name in losses), jnp.float32(0))\n    return sums",
        ),
    ),
    innocent(
        "a function in place of a lambda",
        Edit(
            OPTIMIZER, f"    return Clipped(jax.tree.map({SCALED}, gradients)",
            "    def scale(x: jax.Array) -> jax.Array:\n        return x * factor.astype(x.dtype)\n\n"
            "    return Clipped(jax.tree.map(scale, gradients)",
        ),
    ),
    innocent(
        "the step's name", Edit(STEP, "def train_step(", "def advance("),
        Edit(STEP, "jax.jit(train_step,", "jax.jit(advance,"),
    ),
    innocent("no donation", Edit(STEP, "train_step, donate_argnums=0, ", "train_step, ")),
    innocent("one more metric", Edit(OBJECTIVE, MEASURED, f'{MEASURED}\n        "param_sum": optax.tree.sum(params),')),
    innocent("x / √v for x · rsqrt(v)", Edit(LAYERS, *ROOT)),
    innocent("mean square by einsum", Edit(LAYERS, *MEAN)),
    innocent("softmax by logsumexp", Edit(ATTENTION, SOFTMAX, EXPONENTS)),
    innocent("logits from transposed operands", Edit(LOSS, *TRANSPOSED)),
    innocent(
        "matmul in place of einsum",
        Edit(LOSS, BLOCK, "grad_x_BLE += (grad_logits_BLW @ kernel_EW.T).astype(jnp.float32)"),
    ),
    innocent(
        "sum of the loss by einsum",
        Edit(
            LOSS, "jnp.sum((log_normalizer_BL - target_logit_BL) * weights_BL)",
            'jnp.einsum("BL,BL->", log_normalizer_BL - target_logit_BL, weights_BL)',
        ),
    ),
    innocent(
        "a bracket multiplied out",
        Edit(
            ATTENTION, "(weights_BHLS * (grad_weights_BHLS - mean_BHL[..., None]))",
            "(weights_BHLS * grad_weights_BHLS - weights_BHLS * mean_BHL[..., None])",
        ),
    ),
    innocent(
        "rotation by sums of products",
        Edit(
            LAYERS, ROTATED,
            "    turned = jnp.concatenate([-second, first], axis=-1)\n"
            "    return x_BLHK * jnp.concatenate([cos, cos], axis=-1) + turned * jnp.concatenate([sin, sin], "
            "axis=-1)",
        ),
    ),
    innocent(
        "where in place of minimum",
        Edit(OPTIMIZER, FACTOR, "factor = jnp.where(limit / norm >= 1.0, 1.0, limit / norm)"),
    ),
    innocent("AdamW written out", Edit(OPTIMIZER, ADAMW, WRITTEN_OUT)),
    innocent(
        "a clamp behind the clipping, which nothing reaches",
        Edit(OPTIMIZER, SCALED, "lambda x: jnp.clip(x * factor.astype(x.dtype), -10.0, 10.0)"),
    ),
    innocent(
        "remat by a policy of another name",
        Edit(LAYERS, '    "full": None,', '    "full": jax.checkpoint_policies.nothing_saveable,'),
        command=f"{FUNCTION} --set remat_policy=full",
    ),
    innocent(
        "a checkpoint around the gate",
        Edit(DECODER, 'jax.nn.silu(widen("wi_0"))', 'jax.checkpoint(jax.nn.silu)(widen("wi_0"))'),
    ),
    innocent(
        "the evaluation's list",
        Edit(
            EVALUATION, "        config, losses, weights = self.setup.config, [], []",
            "        config = self.setup.config\n        losses, weights = [], []",
        ),
        command=f"{FUNCTION} --case 13_eval",
    ),
    innocent("documentation alone", Edit("docs/explain.md", "# Why two arms differ", "# Why two arms are different")),
    innocent("a test alone", Edit("tests/test_more.py", "", "def test_nothing() -> None:\n    assert True\n")),
    innocent("rows of every batch but the first reversed", Edit(DATA, NEXT, from_call(2, REVERSED))),
    innocent(
        "rows of every batch but the first reversed, trained", Edit(DATA, NEXT, from_call(2, REVERSED)),
        command=CALM,
    ),
    innocent(
        "a comment, trained",
        Edit(
            OPTIMIZER, "    length = schedule_steps(config)\n", "    # in steps\n    length = schedule_steps(config)\n",
        ),
        command=CALM,
    ),
    *OF_STRANGER,
)  # fmt: skip
