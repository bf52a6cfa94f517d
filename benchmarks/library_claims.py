"""Numeric tests of optax, Flax and JAX as claims: two functions that a test says are equal, and their arguments."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn


class Claim(NamedTuple):
    """Two functions that a test says are equal, and their arguments."""

    package: str
    file: str  # of the package's own test
    test: str  # its class and name, as pytest's -k takes them
    left: Callable[..., Any]
    right: Callable[..., Any]
    given: Sequence[Any]
    grad: bool = True


def floats(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Return the shape of drawn numbers."""
    return jax.ShapeDtypeStruct(shape, dtype)


def claims_of_optax() -> Iterator[Claim]:
    """Yield claims of its losses, schedules and transformations."""
    classes, mask = "losses/_classification_test.py", np.array([True, False, True, True, False])
    pair, entropy = (floats(4, 5), floats(4, 5)), optax.softmax_cross_entropy
    shares = np.array([0.1, 0.3, 0.2, 0.15, 0.25], np.float32)

    def huber(p: Any, t: Any) -> Any:
        gap = jnp.abs(p - t)
        return jnp.where(gap <= 1, gap**2 / 2, gap - 0.5)

    yield Claim(
        "optax", "losses/_regression_test.py", "HuberLossTest and test_batched",
        lambda p, t: optax.huber_loss(p, t, delta=1.0), huber, pair,
    )  # fmt: skip
    yield Claim(
        "optax", "losses/_regression_test.py", "CosineDistanceTest and test_axis",
        lambda p, t: optax.cosine_similarity(p, t, axis=0), lambda p, t: optax.cosine_similarity(p.T, t.T), pair,
    )  # fmt: skip
    yield Claim(
        "optax", classes, "SoftmaxCrossEntropyTest and test_mask", lambda p: entropy(p, shares, where=mask),
        lambda p: entropy(p[mask], shares[mask]), (floats(5),),
    )  # fmt: skip
    yield Claim(
        "optax", classes, "IntegerLabelsTest and test_consistent_with_softmax_cross_entropy_batched",
        optax.softmax_cross_entropy_with_integer_labels, lambda p, labels: entropy(p, jax.nn.one_hot(labels, 5)),
        (floats(4, 5), jax.ShapeDtypeStruct((4,), jnp.int32)),
    )  # fmt: skip

    def focal(p: Any, t: Any) -> Any:
        right = jax.nn.sigmoid(p) * t + (1 - jax.nn.sigmoid(p)) * (1 - t)
        return optax.sigmoid_binary_cross_entropy(p, t) * (1 - right) ** 2

    hard = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], np.float32)
    yield Claim(
        "optax", classes, "SigmoidFocalLossTest and test_scale", lambda p: optax.sigmoid_focal_loss(p, hard, gamma=2),
        lambda p: focal(p, hard), (floats(2, 3),),
    )  # fmt: skip

    def descend(scaling: Any) -> Callable[..., Any]:
        def run(params: Any) -> Any:
            state = scaling.init(params)
            for _ in range(5):
                updates, state = scaling.update(jax.tree.map(lambda x: 2 * x, params), state)
                params = optax.apply_updates(params, updates)
            return params

        return run

    tree = (floats(2), floats(2))
    yield Claim(
        "optax", "_src/transform_test.py", "test_rms_match_adam", descend(optax.scale_by_adam(b1=0)),
        descend(optax.scale_by_rms(decay=0.999, eps_in_sqrt=False, bias_correction=True)), (tree,), grad=False,
    )  # fmt: skip

    def average(first: Any, second: Any) -> Any:
        mean, state = optax.ema(0.9).update(first, optax.ema(0.9).init(first))
        return mean, optax.ema(0.9).update(second, state)[0]

    yield Claim(
        "optax", "transforms/_accumulation_test.py", "test_ema_debias", average,
        lambda a, b: (a, (0.1 * b + 0.9 * 0.1 * a) / (1 - 0.9**2)), tree, grad=False,
    )  # fmt: skip

    def clip(updates: Any) -> Any:
        size = jnp.sqrt(sum((x**2).sum() for x in updates))
        return jax.tree.map(lambda x: x * jnp.minimum(1, 0.5 / size), updates)

    clipping = optax.clip_by_global_norm(0.5)
    yield Claim(
        "optax", "transforms/_clipping_test.py", "test_clip_by_global_norm",
        lambda updates: clipping.update(updates, optax.EmptyState())[0], clip, (tree,), grad=False,
    )  # fmt: skip
    yield Claim(
        "optax", "schedules/_schedule_test.py", "CosineDecayTest and test_decay_count_greater_count_with_alpha",
        optax.cosine_decay_schedule(0.1, 5, 0.1),
        lambda count: 0.1 * (0.9 * (0.5 + 0.5 * jnp.cos(jnp.pi * jnp.clip(count / 5, 0, 1))) + 0.1),
        (np.arange(12, dtype=np.int32),), grad=False,
    )  # fmt: skip


def claims_of_flax() -> Iterator[Claim]:
    """Yield claims of its normalizations, attention and recurrent layers."""
    file = "tests/linen/linen_test.py"
    plain: dict[str, Any] = {"use_scale": False, "epsilon": 1e-5}

    def centre(x: Any, axes: Any) -> Any:
        return (x - x.mean(axes, keepdims=True)) / jnp.sqrt(x.var(axes, keepdims=True) + 1e-5)

    layer = nn.LayerNorm(use_bias=False, reduction_axes=(1, 2), **plain)
    yield Claim(
        "flax", file, "NormalizationTest and test_layer_norm", lambda x: layer.apply({}, x),
        lambda x: centre(x, (1, 2)), (floats(2, 3, 4),),
    )  # fmt: skip
    rms = nn.RMSNorm(**plain)
    yield Claim(
        "flax", file, "NormalizationTest and test_rms_norm", lambda x: rms.apply({}, x),
        lambda x: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5), (floats(2, 3, 4),),
    )  # fmt: skip
    group = nn.GroupNorm(num_groups=2, use_bias=False, **plain)
    yield Claim(
        "flax", file, "NormalizationTest and test_group_norm", lambda x: group.apply({}, x),
        lambda x: centre(x.reshape(2, 3, 3, 2, 4), (1, 2, 4)).reshape(x.shape), (floats(2, 3, 3, 8),),
    )  # fmt: skip
    mask, batch = np.arange(12).reshape(4, 3, 1) % 5 > 0, nn.BatchNorm(momentum=0.9, use_running_average=False)
    first = batch.init(jax.random.key(0), jnp.ones((4, 3, 2)))

    def normalize(x: Any) -> Any:
        y, state = batch.apply(first, x, mask=mask, mutable=["batch_stats"])
        return y, state["batch_stats"]

    def statistics(x: Any) -> Any:
        mean, var = x.mean((0, 1), where=mask), x.var((0, 1), where=mask)
        return (x - mean) / jnp.sqrt(var + 1e-5), {"mean": 0.1 * mean, "var": 0.9 + 0.1 * var}

    yield Claim(
        "flax", file, "NormalizationTest and test_batch_norm and not complex", normalize, statistics, (floats(4, 3, 2),)
    )
    attention = nn.MultiHeadDotProductAttention(num_heads=3, qkv_features=12)
    decoder, inputs = attention.clone(decode=True), floats(2, 5, 12)
    variables = decoder.init(jax.random.key(0), jnp.ones((2, 5, 12)))

    def decode(params: Any, x: Any) -> Any:
        def step(cache: Any, token: Any) -> Any:
            y, state = decoder.apply({"params": params, "cache": cache}, token[:, None], mutable=["cache"])
            return state["cache"], y[:, 0]

        return jax.lax.scan(step, variables["cache"], x.swapaxes(0, 1))[1].swapaxes(0, 1)

    causal = nn.make_causal_mask(jnp.ones((2, 5)))
    yield Claim(
        "flax", "tests/linen/linen_attention_test.py", "test_decoding", decode,
        lambda params, x: attention.apply({"params": params}, x, mask=causal), (variables["params"], inputs),
    )  # fmt: skip
    cell, recurrent = nn.LSTMCell(6), nn.RNN(nn.LSTMCell(6), return_carry=True)
    weights = recurrent.init(jax.random.key(0), jnp.ones((3, 4, 5)))["params"]

    def unroll(params: Any, x: Any) -> Any:
        carry, found = cell.initialize_carry(jax.random.key(0), x[:, 0].shape), list[Any]()
        for n in range(4):
            carry, y = cell.apply({"params": params["cell"]}, carry, x[:, n])
            found.append(y)
        return carry, jnp.stack(found, 1)

    yield Claim(
        "flax", "tests/linen/linen_recurrent_test.py", "RNNTest and test_numerical_equivalence and not with_mask",
        lambda params, x: recurrent.apply({"params": params}, x), unroll, (weights, floats(3, 4, 5)),
    )  # fmt: skip


def claims_of_jax() -> Iterator[Claim]:
    """Yield claims of `jax.nn` and `jax.scipy.special`."""
    file, bf16 = "tests/nn_test.py", {"dtype": jnp.bfloat16}

    def repeated(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k.repeat(2, 2), v.repeat(2, 2), return_residual=True)

    yield Claim(
        "jax", file, "testDotProductAttention and not Mask and not Bias and not Window",
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, return_residual=True), repeated,
        (floats(2, 6, 4, 8, **bf16), floats(2, 6, 2, 8, **bf16), floats(2, 6, 2, 8, **bf16)),
    )  # fmt: skip
    yield Claim(
        "jax", file, "testGelu and not Int", lambda x: jax.nn.gelu(x, approximate=False),
        lambda x: x * jax.scipy.stats.norm.cdf(x), (floats(32),),
    )  # fmt: skip
    mask = np.arange(15).reshape(3, 5) % 4 > 0
    yield Claim(
        "jax", file, "testLogMeanExp", lambda x: jax.nn.logmeanexp(x, axis=1, where=mask),
        lambda x: jnp.log(jnp.exp(x).mean(1, where=mask)), (floats(3, 5),),
    )  # fmt: skip
    yield Claim(
        "jax", "tests/lax_scipy_test.py", "testLogSumExp and not Where and not Grad",
        lambda x: jax.scipy.special.logsumexp(x, axis=1), lambda x: jnp.log(jnp.exp(x).sum(1)), (floats(3, 5),),
    )  # fmt: skip
    yield Claim(
        "jax", file, "testSoftmaxGrad and not Residuals and not Flag", jax.nn.softmax,
        lambda x: jnp.exp(x) / jnp.exp(x).sum(), (floats(8),),
    )  # fmt: skip


CLAIMS = {"optax": claims_of_optax, "flax": claims_of_flax, "jax": claims_of_jax}
