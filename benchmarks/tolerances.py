"""Asks the library, and a tolerance of 1e-3, about pairs as tests of optax, Flax and JAX compare them, and errors.

    python -m benchmarks.tolerances [NAME]…

NAME selects the pairs whose name contains it. Each pair is one function, as a library has it and as its formula says;
an error is a small change of the formula. Exit status: 0 if the library is right on every pair and error, 1 if not.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx

import maxview_probe as mv
from benchmarks.machine import describe_machine

type Function = Callable[..., Any]
RANDOM = np.random.default_rng(0)
TOLERANCE = 1e-3  # relative and absolute


class Pair(NamedTuple):
    """One function twice, its arguments, and its formula with an error."""

    name: str
    library: Function
    formula: Function
    given: Sequence[Any]
    error: Function | None = None
    grad: bool = True


def floats(*shape: int) -> np.ndarray:
    """Return standard normal float32."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def loss_pairs() -> Iterator[Pair]:
    """Yield losses of optax."""
    logits, labels = floats(6, 10), RANDOM.integers(0, 10, 6).astype(np.int32)
    a, b, shares = floats(8), floats(8), RANDOM.random(8).astype(np.float32)

    def entropy(logits: Any, labels: Any, smooth: float = 0.0) -> Any:
        wanted = jax.nn.one_hot(labels, 10) * (1 - smooth) + smooth / 10
        return -(wanted * jax.nn.log_softmax(logits)).sum(-1)

    yield Pair(
        "cross entropy with integer labels", optax.softmax_cross_entropy_with_integer_labels, entropy,
        (logits, labels), lambda x, y: entropy(x, y, 1e-4),
    )  # fmt: skip

    def binary(x: Any, y: Any, scale: float = 1.0) -> Any:
        return -(y * jax.nn.log_sigmoid(x) + (1 - y) * jax.nn.log_sigmoid(-scale * x))

    yield Pair(
        "binary cross entropy",
        optax.sigmoid_binary_cross_entropy,
        binary,
        (a, shares),
        lambda x, y: binary(x, y, 1.0001),
    )

    def huber(p: Any, t: Any, middle: float = 0.5) -> Any:
        gap = jnp.abs(p - t)
        return jnp.where(gap < 1, 0.5 * gap**2, gap - middle)

    yield Pair("Huber", lambda p, t: optax.huber_loss(p, t), huber, (a, b), lambda p, t: huber(p, t, 0.4999))
    yield Pair(
        "log cosh", lambda p, t: optax.log_cosh(p, t), lambda p, t: jnp.log(jnp.cosh(p - t)), (a, b),
        lambda p, t: jnp.log(jnp.cosh(1.00002 * (p - t))),
    )  # fmt: skip
    yield Pair(
        "cosine similarity", lambda a, b: optax.cosine_similarity(a, b),
        lambda a, b: (a * b).sum(-1) / jnp.sqrt((a * a).sum(-1)) / jnp.sqrt((b * b).sum(-1)),
        (floats(4, 8), floats(4, 8)),
    )  # fmt: skip
    even = np.full((3, 4), 0.25, np.float32)
    yield Pair(
        "Kullback-Leibler", lambda p, t: optax.kl_divergence(p, t), lambda p, t: (t * (jnp.log(t) - p)).sum(-1),
        (np.log(even) + 0.1 * floats(3, 4), even), grad=False,
    )  # fmt: skip


def two_steps(optimizer: Any) -> Function:
    """Return a function of weights and the gradients of two steps."""

    def run(params: Any, *gradients: Any) -> Any:
        state = optimizer.init(params)
        for one in gradients:
            updates, state = optimizer.update(one, state, params)
            params = optax.apply_updates(params, updates)
        return params

    return run


def adam(eps: float = 1e-8, b1: float = 0.9, b2: float = 0.999) -> Function:
    """Return Adam as its paper has it."""

    def run(params: Any, *gradients: Any) -> Any:
        mu = nu = jax.tree.map(jnp.zeros_like, params)
        for t, one in enumerate(gradients, 1):
            mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, mu, one)
            nu = jax.tree.map(lambda n, g: b2 * n + (1 - b2) * g * g, nu, one)
            rates = 1 - b1**t, 1 - b2**t

            def move(p: Any, m: Any, n: Any, rates: tuple[float, float] = rates) -> Any:
                return p - 1e-2 * (m / rates[0]) / (jnp.sqrt(n / rates[1]) + eps)

            params = jax.tree.map(move, params, mu, nu)
        return params

    return run


def optimizer_pairs() -> Iterator[Pair]:
    """Yield optimizers of optax."""
    trees = [{"kernel": floats(3, 4), "bias": floats(4)} for _ in range(3)]
    yield Pair("Adam", two_steps(optax.adam(1e-2)), adam(), trees, adam(eps=1e-6), grad=False)

    def momentum(params: Any, first: Any, second: Any, scale: float = 1.0) -> Any:
        return jax.tree.map(lambda p, a, b: p - 0.1 * scale * a - 0.1 * (0.9 * a + b), params, first, second)

    yield Pair(
        "SGD with momentum", two_steps(optax.sgd(0.1, momentum=0.9)), momentum, trees,
        lambda p, a, b: momentum(p, a, b, scale=1.0003), grad=False,
    )  # fmt: skip

    def clip(tree: Any, more: float = 0.0) -> Any:
        size = jnp.maximum(1.0, optax.global_norm(tree) + more)
        return jax.tree.map(lambda one: one / size, tree)

    yield Pair(
        "clip by the global norm", lambda g: optax.clip_by_global_norm(1.0).update(g, optax.EmptyState())[0], clip,
        trees[:1], lambda g: clip(g, 1e-5), grad=False,
    )  # fmt: skip

    def chained(decay: float) -> Function:
        return two_steps(optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(decay), optax.scale(-1e-2)))

    yield Pair(
        "AdamW", two_steps(optax.adamw(1e-2, weight_decay=0.01)), chained(0.01), trees, chained(0.0101), grad=False
    )
    average = optax.ema(0.9)
    yield Pair(
        "average without its bias", lambda g: average.update(g, average.init(g))[0],
        lambda g: jax.tree.map(lambda x: (1 - 0.9) * x / (1 - 0.9), g), trees[:1], grad=False,
    )  # fmt: skip


def layer_pairs() -> Iterator[Pair]:
    """Yield layers of Flax."""
    x = floats(4, 6, 16)

    def start(layer: Any, *given: Any) -> Any:
        made = layer.init(jax.random.key(0), *given)
        return jax.tree.map(lambda one: one + 0.1 * floats(*one.shape), made)

    def scaled(params: Any, x: Any) -> Any:
        return x * params["params"]["scale"] + params["params"].get("bias", 0.0)

    def layer_norm(params: Any, x: Any, eps: float = 1e-6) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return scaled(params, centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps))

    layer: Any = nn.LayerNorm()
    params = start(layer, x)
    yield Pair("LayerNorm", layer.apply, layer_norm, (params, x), lambda p, x: layer_norm(p, x, 1e-5))
    graph, state = nnx.split(nnx.LayerNorm(16, rngs=nnx.Rngs(0)))
    yield Pair(
        "LayerNorm of NNX and of Linen", lambda s, x: nnx.merge(graph, s)(x),
        lambda s, x: layer.apply({"params": {"scale": s["scale"][...], "bias": s["bias"][...]}}, x), (state, x),
    )  # fmt: skip
    rms = nn.RMSNorm()
    yield Pair(
        "RMSNorm", rms.apply,
        lambda p, x: scaled(p, x * jax.lax.rsqrt(jnp.einsum("bsd,bsd->bs", x, x)[..., None] / 16 + 1e-6)),
        (start(rms, x), x),
    )  # fmt: skip

    def group_norm(params: Any, x: Any) -> Any:
        grouped = x.reshape(4, 6, 4, 4)
        centred = grouped - grouped.mean((1, 3), keepdims=True)
        return scaled(params, (centred / jnp.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-6)).reshape(x.shape))

    group = nn.GroupNorm(num_groups=4)
    yield Pair("GroupNorm", group.apply, group_norm, (start(group, x), x))
    dense = nn.DenseGeneral((4, 8))
    yield Pair(
        "DenseGeneral", dense.apply,
        lambda p, x: jnp.einsum("bsd,dhk->bshk", x, p["params"]["kernel"]) + p["params"]["bias"], (start(dense, x), x),
    )  # fmt: skip

    def convolved(params: Any, x: Any) -> Any:
        wide = jnp.pad(x, ((0, 0), (1, 1), (0, 0)))
        return sum(wide[:, i : i + 6] @ params["params"]["kernel"][i] for i in range(3)) + params["params"]["bias"]

    conv = nn.Conv(8, (3,), padding="SAME")
    yield Pair("Conv", conv.apply, convolved, (start(conv, x), x))

    def lstm(params: Any, carry: Any, x: Any) -> Any:
        (cell, hidden), p = carry, params["params"]
        i, f, g, o = (
            x @ p[f"i{n}"]["kernel"] + hidden @ p[f"h{n}"]["kernel"] + p[f"h{n}"]["bias"] for n in ("i", "f", "g", "o")
        )
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (cell, hidden), hidden

    recurrent, carry, row = nn.LSTMCell(8), (floats(4, 8), floats(4, 8)), floats(4, 16)
    yield Pair("LSTMCell", recurrent.apply, lstm, (start(recurrent, carry, row), carry, row))


def attention_pairs() -> Iterator[Pair]:
    """Yield attentions of Flax and JAX."""
    given = [floats(2, 5, 2, 8) for _ in range(3)]

    def attend(q: Any, k: Any, v: Any, scale: float = 8**-0.5, mask: Any = True) -> Any:
        scores = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, k) * scale, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)

    yield Pair("attention", nn.dot_product_attention, attend, given, lambda q, k, v: attend(q, k, v, 1.0005 * 8**-0.5))
    causal = np.tril(np.ones((5, 5), bool))
    yield Pair(
        "causal attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: attend(q, k, v, mask=causal), given,
    )  # fmt: skip


def function_pairs() -> Iterator[Pair]:
    """Yield functions of JAX."""
    x, w, rows = floats(17), floats(8, 8), floats(3, 8)
    yield Pair("logsumexp", jax.nn.logsumexp, lambda x: jnp.log(jnp.exp(x).sum()), (x,))
    yield Pair(
        "GELU", lambda x: jax.nn.gelu(x, approximate=False), lambda x: 0.5 * x * (1 + jax.lax.erf(x / jnp.sqrt(2.0))),
        (x,), lambda x: jax.nn.gelu(x, approximate=True),
    )  # fmt: skip
    yield Pair("softplus", jax.nn.softplus, lambda x: jnp.where(x > 0, x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x))), (x,))
    yield Pair("SiLU", jax.nn.silu, lambda x: x / (1 + jnp.exp(-x)), (x,))
    yield Pair("cumulative sum", jnp.cumsum, lambda x: jax.lax.associative_scan(jnp.add, x), (x,))
    yield Pair("variance", lambda x: jnp.var(x, ddof=1), lambda x: ((x - x.mean()) ** 2).sum() / (x.size - 1), (x,))
    yield Pair(
        "polynomial", jnp.polyval, lambda c, x: sum(c[i] * x ** (3 - i) for i in range(4)), (floats(4), floats(5))
    )
    yield Pair(
        "scan and loop", lambda w, x: jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=3)[0],
        lambda w, x: jnp.tanh(jnp.tanh(jnp.tanh(x @ w) @ w) @ w), (w, rows),
    )  # fmt: skip
    yield Pair("remat", jax.checkpoint(lambda w, x: jnp.sin(x @ w)), lambda w, x: jnp.sin(x @ w), (w, rows))
    yield Pair("softmax", jax.nn.softmax, lambda x: jnp.exp(x) / jnp.exp(x).sum(), (x,))


def are_close(left: Function, right: Function, given: Sequence[Any]) -> bool:
    """Return whether both results agree within the tolerance."""
    pairs = zip(*(jax.tree.leaves(jax.jit(one)(*given)) for one in (left, right)), strict=True)
    return all(np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE) for a, b in pairs)


def main(names: Sequence[str]) -> int:
    """Print a row for each pair and each error, and the sums."""
    print(describe_machine())
    warnings.simplefilter("ignore", mv.UntriedWarning)
    made = (loss_pairs, optimizer_pairs, layer_pairs, attention_pairs, function_pairs)
    pairs = [one for make in made for one in make() if not names or any(name in one.name for name in names)]
    same = found = found_by_tolerance = errors = unsure = 0
    for pair in pairs:
        began = time.monotonic()
        result = mv.same_function(pair.library, pair.formula, *pair.given, grad=pair.grad)
        seconds = time.monotonic() - began
        same += result.same
        unsure += bool(result.untried)
        close = are_close(pair.library, pair.formula, pair.given)
        print(f"{pair.name:35} {'close' if close else 'not close':10} {seconds:5.1f} s  {str(result).splitlines()[0]}")
        if pair.error is None:
            continue
        errors += 1
        result = mv.same_function(pair.library, pair.error, *pair.given, grad=pair.grad)
        found += not result.same
        found_by_tolerance += not are_close(pair.library, pair.error, pair.given)
        print(f"{'  with an error':35} {'':10} {'':7}  {str(result).splitlines()[0]}", flush=True)
    print(f"{same} of {len(pairs)} pairs are the same, {unsure} of them with an untried condition")
    print(f"{found} of {errors} errors found, {found_by_tolerance} by a tolerance of {TOLERANCE:g}")
    return int(same < len(pairs) or found < errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
