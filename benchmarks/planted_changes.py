# ruff: noqa: E501 - texts of sources as they stand there
"""Changes of a trainer's source: faults, whose line an explanation has to name, and edits that change nothing."""

from typing import NamedTuple


class Change(NamedTuple):
    """One text of one file, replaced by another. `case` is the case that runs this code.

    also: functions in which the changed operation runs, where the changed line only hands a number to a library.
    """

    name: str
    before: str
    after: str
    case: str = "01_base"
    also: tuple[str, ...] = ()
    argument: str = ""  # the argument of the step that differs, where the change is of what a run begins with


OURS = (
    Change("an epsilon", "jax.lax.rsqrt(mean_square + epsilon)", "jax.lax.rsqrt(mean_square + 10 * epsilon)"),
    Change(
        "a dropout key without its layer",
        "key = layers.fold_in(context.key, layer)",
        "key = layers.fold_in(context.key, 0)",
        "03_dropout",
        also=("fold_in",),
    ),
    Change(
        "bfloat16 in one product",
        '"BLHK,BSHK->BHLS", query_BLHK, key_BSHK, preferred_element_type=jnp.float32)',
        '"BLHK,BSHK->BHLS", query_BLHK, key_BSHK).astype(jnp.float32)',
        also=("dot_product",),  # the function whose derivative is given runs for its caller
    ),
    Change(
        "a stopped gradient",
        'query_BLHK = layers.rotary(project("query"), context)',
        'query_BLHK = jax.lax.stop_gradient(layers.rotary(project("query"), context))',
    ),
    Change(
        "a swapped axis of rope",
        "[first * cos - second * sin, second * cos + first * sin]",
        "[second * cos - first * sin, first * cos + second * sin]",
    ),
    Change(
        "a scale of attention",
        'value_BLGK = project("value")\n',
        'value_BLGK, query_BLHK = project("value"), query_BLHK * 0.25\n',
    ),
    Change(
        "a missing clip",
        "lambda x: x * factor.astype(x.dtype), gradients)",
        "lambda x: x, gradients)",
        also=("clip", "Nnx.train_step"),
    ),
    Change(
        "a changed init",
        'self.wo = Projection(cfg, product, "BLF,FE->BLE", shape, axes, init, rngs=rngs)',
        'self.wo = Projection(cfg, product, "BLF,FE->BLE", shape, axes, INITIALIZERS["key"], rngs=rngs)',
        argument="mlp.wo",
    ),
    Change(
        "another weight decay",
        "weight_decay=config.adam_weight_decay,",
        "weight_decay=2 * config.adam_weight_decay,",
        also=("Nnx.train_step",),
    ),
    Change(
        "a mask off by one",
        "jnp.tril(jnp.ones((length, length), dtype=jnp.bool_))",
        "jnp.tril(jnp.ones((length, length), dtype=jnp.bool_), 1)",
    ),
    Change(
        "routing weighted by half",
        "return Routed(weights_BLk.reshape(-1, chosen),",
        "return Routed(0.5 * weights_BLk.reshape(-1, chosen),",
        "06_moe",
    ),
    Change("another activation", 'jax.nn.silu(widen("wi_0"))', 'jax.nn.gelu(widen("wi_0"))'),
)

MAXTEXT = (
    Change("an epsilon", "lax.rsqrt(mean2 + self.epsilon), self.dtype)", "lax.rsqrt(mean2 + 10 * self.epsilon), self.dtype)"),
    Change("a norm in bfloat16", "mean2 = jnp.mean(lax.square(x), axis=-1, keepdims=True)\n    y = jnp.asarray(x * lax.rsqrt(mean2 + self.epsilon), self.dtype)\n\n    # out_sharding", "mean2 = jnp.mean(lax.square(x), axis=-1, keepdims=True).astype(jnp.bfloat16).astype(jnp.float32)\n    y = jnp.asarray(x * lax.rsqrt(mean2 + self.epsilon), self.dtype)\n\n    # out_sharding"),
    Change("another timescale of rope", "timescale = self.min_timescale * (self.max_timescale / self.min_timescale) ** fraction\n    if self.rope_linear", "timescale = 2 * self.min_timescale * (self.max_timescale / self.min_timescale) ** fraction\n    if self.rope_linear"),
    Change("a swapped axis of rope", "return jnp.concatenate((-x2, x1), axis=-1)", "return jnp.concatenate((x2, -x1), axis=-1)"),
    Change("a scale of attention", 'result = einsum("btkgd,bskd->bkgts", query, key, **precision_kwargs)', 'result = 0.5 * einsum("btkgd,bskd->bkgts", query, key, **precision_kwargs)'),
    Change("a stopped gradient", 'self.value_axis_names)\n\n    query = checkpoint_name(query, "query_proj")', 'self.value_axis_names)\n\n    query = checkpoint_name(jax.lax.stop_gradient(query), "query_proj")'),
    Change("another sum of the MLP", "x = functools.reduce(operator.mul, activations).astype(self.dtype)", "x = functools.reduce(operator.add, activations).astype(self.dtype)"),
    Change("a softmax without its largest", "local_exps_combined = jnp.exp(logits - local_max)", "local_exps_combined = jnp.exp(logits - 0.5 * local_max)"),
    Change("a loss of other weights", "loss = xent_sum / (total_weights + EPS)", "loss = xent_sum / (2 * total_weights + EPS)"),
    Change("a missing clip", "      grads = maxtext_utils.apply_gradient_clipping(raw_grads, state, config.gradient_clipping_threshold)\n    else:", "      grads = raw_grads\n    else:", also=("train_step", "apply_gradient_clipping")),
    Change("another weight decay", "weight_decay=config.adam_weight_decay,", "weight_decay=2 * config.adam_weight_decay,", also=("train_step",)),
    Change("routing without normalising", "top_k_weights = jax.nn.softmax(top_k_weights.astype(jnp.float32), axis=-1).astype(self.dtype)", "top_k_weights = jax.nn.sigmoid(top_k_weights.astype(jnp.float32)).astype(self.dtype)", "06_moe"),
)  # fmt: skip

INNOCENT = (
    Change("a renamed variable", "wide = x_BLE.astype(jnp.float32)\n    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)\n    normed = (wide *", "x32 = x_BLE.astype(jnp.float32)\n    mean_square = jnp.mean(jnp.square(x32), axis=-1, keepdims=True)\n    normed = (x32 *"),
    Change("factors in another order", "normed = (wide * jax.lax.rsqrt(mean_square + epsilon))", "normed = (jax.lax.rsqrt(epsilon + mean_square) * wide)"),
    # not those whose gradients are summed: another order of that sum is another result
    Change("independent operations in another order", "sin_BLK, cos_BLK = (turn(angle_BLK).astype(config.dtype) for turn in (jnp.sin, jnp.cos))", "cos_BLK, sin_BLK = (turn(angle_BLK).astype(config.dtype) for turn in (jnp.cos, jnp.sin))"),
    Change("a function taken out", "mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)", "mean_square = (lambda x: jnp.mean(jnp.square(x), axis=-1, keepdims=True))(wide)"),
    Change("arguments by name", "return layers.rms_norm(x_BLE, self.scale[...], cfg.normalization_layer_epsilon, cfg.dtype)", "return layers.rms_norm(x_BLE=x_BLE, scale_E=self.scale[...], epsilon=cfg.normalization_layer_epsilon, dtype=cfg.dtype)"),
    Change("a comment and an empty line", "def rotary(", "# turned by position\n\n\ndef rotary("),
    Change("rope's terms in another order", "[first * cos - second * sin, second * cos + first * sin]", "[cos * first - sin * second, sin * first + cos * second]"),
    Change("a method of the array", "sin, cos = context.sin_BLK[:, :, None, :], context.cos_BLK[:, :, None, :]", "cos, sin = jnp.expand_dims(context.cos_BLK, 2), jnp.expand_dims(context.sin_BLK, 2)"),
    Change("the gate after the other half", 'hidden_BLF = jax.nn.silu(widen("wi_0")) * widen("wi_1")', 'up_BLF = widen("wi_1")\n        hidden_BLF = jax.nn.silu(widen("wi_0")) * up_BLF'),
    Change("metrics in another order", '        "grad_norm": clipped.norm,\n        "raw_grad_norm": clipped.raw_norm,\n', '        "raw_grad_norm": clipped.raw_norm,\n        "grad_norm": clipped.norm,\n'),
)  # fmt: skip

# an operation that takes about a fifth of a step: numbers are sorted, and hardly change the result
SORTED = "({x} + (1e-12 * jnp.mean(jnp.sort(jnp.resize(jax.lax.stop_gradient({x}).astype(jnp.float32), ({n},))))).astype({x}.dtype))"
# numbers that are sorted: what a layer does twice runs sixteen times a step, forward and recomputed
TWICE_IN_LAYERS, IN_LAYERS, NOT_RECOMPUTED, ONCE = 1_000, 2_000, 4_000, 15_000


def slow(name: str, text: str, x: str, n: int) -> Change:
    """The text with `x` in it replaced by a slow `x`; the last `x` of the text is meant."""
    before, _, after = text.rpartition(x)
    return Change(name, text, before + SORTED.format(x=x, n=n) + after)


SLOW = (
    slow("norm", "return normed * scale_E", "normed", TWICE_IN_LAYERS),
    slow("rope", "first, second = jnp.split(x_BLHK, 2, axis=-1)", "x_BLHK", TWICE_IN_LAYERS),
    slow("MLP, its hidden values", 'hidden_BLF = layers.dropout(hidden_BLF, self.config, key, "mlp")', "hidden_BLF", IN_LAYERS),
    slow("MLP, its result", 'layers.name_result(self.wo(hidden_BLF), "mlpwo")', "hidden_BLF", IN_LAYERS),
    slow("attention, its result", "layers.name_result(self.out(attended_BLHK), layers.OUT)", "attended_BLHK", IN_LAYERS),
    slow("attention, the mask's caller", "attend(query_BLHK, key_BSHK, value_BSHK, visible", "value_BSHK", IN_LAYERS),
    slow("residual", "layers.dropout(x_BLE + changed_BLE, self.config", "changed_BLE", NOT_RECOMPUTED),
    slow("last norm", "layers.dropout(self.decoder_norm(x_BLE), cfg", "x_BLE", ONCE),
    slow("embedding", 'x_BLE = constrain(x_BLE, "activation_batch", "activation_length", "activation_embed")\n        context', "x_BLE", ONCE),
    slow("objective", "lm_loss = cross_entropy(output.x_BLE, output.kernel_EV", "output.x_BLE", ONCE),
)  # fmt: skip
