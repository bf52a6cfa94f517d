"""Tries the library on this machine's accelerator in about ten minutes: `python -m maxview_probe.accelerator`.

Out: a table with versions. It needs the machine's own JAX and this package alone; with maxview's trainer installed it
also trains ten steps of the model seed-1b. `--small` makes everything tiny, for a processor.
"""

import argparse
import importlib.util
import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import maxview_probe as mv

PLANTED = 2e-4  # size of the planted errors: far below what bf16 rounds
B1, B2, EPS, RATE = 0.9, 0.95, 1e-8, 1e-3


class Row(NamedTuple):
    """A line of the table."""

    what: str
    found: str
    wanted: str
    right: bool | None  # None: a measurement, which nobody can predict


# ---------------------------------------------------------------- attention, plainly and by a kernel of the device
def attend(q: Any, k: Any, v: Any) -> Any:
    """Causal attention; q, k, v: [batch, length, heads, width]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (q.shape[-1] ** -0.5)
    keep = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(keep, scores, -1e30), axis=-1), v)


def attend_in_blocks(q: Any, k: Any, v: Any, block: int, rescale: float = 1.0) -> Any:
    """Attention over blocks of keys with a running maximum, as flash kernels do; rescale: 1, or a planted error."""
    length, width = q.shape[1], q.shape[-1]
    rows = jnp.arange(length)[:, None]
    keys, values = (jnp.moveaxis(x.reshape(x.shape[0], -1, block, *x.shape[2:]), 1, 0) for x in (k, v))

    def step(state: Any, item: Any) -> Any:
        total, largest, norm = state
        number, kb, vb = item
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, kb) * (width**-0.5)
        scores = jnp.where(rows >= number * block + jnp.arange(block)[None], scores, -1e30)
        new = jnp.maximum(largest, scores.max(-1))
        powers, before = jnp.exp(scores - new[..., None]), jnp.exp(largest - new) * rescale
        total = total * before[..., None] + jnp.einsum("bhqk,bkhd->bhqd", powers, vb)
        return (total, new, norm * before + powers.sum(-1)), None

    shape = (q.shape[0], q.shape[2], length)
    start = jnp.zeros((*shape, width), q.dtype), jnp.full(shape, -1e30, q.dtype), jnp.zeros(shape, q.dtype)
    (total, _, norm), _ = jax.lax.scan(step, start, (jnp.arange(length // block), keys, values))
    return jnp.moveaxis(total / norm[..., None], 1, 2)


def kernel_of(device: str) -> tuple[str, Callable[..., Any]] | None:
    """Return the name and the function of the device's own attention kernel; None if this JAX has none."""
    if device == "gpu":
        return "cuDNN's attention", lambda q, k, v: jax.nn.dot_product_attention(
            q, k, v, is_causal=True, implementation="cudnn"
        )
    if device == "tpu":
        from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

        def flash(q: Any, k: Any, v: Any) -> Any:
            heads_first = [jnp.moveaxis(x, 2, 1) for x in (q, k, v)]
            return jnp.moveaxis(flash_attention(*heads_first, causal=True, sm_scale=q.shape[-1] ** -0.5), 1, 2)

        return "Pallas's flash attention", flash
    return None


# ---------------------------------------------------------------- Adam, array by array and fused
def adam(weights: Any, gradients: Any, first: Any, second: Any, step: Any, *, corrected: bool = True) -> Any:
    """One update of a tree of weights, array by array."""
    first = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, second, gradients)
    left, right = (1 - B1**step, 1 - B2**step) if corrected else (1.0, 1.0)
    update = jax.tree.map(lambda m, v: (m / left) / (jnp.sqrt(v / right) + EPS), first, second)
    return jax.tree.map(lambda w, u: w - RATE * u, weights, update), first, second


def fused_adam(weights: Any, gradients: Any, first: Any, second: Any, step: Any, *, eps_inside: bool = False) -> Any:
    """The same update of one long vector; eps_inside: a planted error, below the root instead of beside it."""
    leaves, tree = jax.tree.flatten(weights)
    w, g, m, v = (jnp.concatenate([x.ravel() for x in jax.tree.leaves(t)]) for t in (weights, gradients, first, second))
    m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
    root = v / (1 - B2**step)
    below = jnp.sqrt(root + EPS) if eps_inside else jnp.sqrt(root) + EPS
    w = w - RATE * (m / (1 - B1**step)) / below
    ends = np.cumsum([x.size for x in leaves])[:-1]
    parts = ([p.reshape(x.shape) for p, x in zip(jnp.split(a, ends), leaves, strict=True)] for a in (w, m, v))
    return tuple(jax.tree.unflatten(tree, part) for part in parts)


# ---------------------------------------------------------------- the rows
def floats(seed: int, *shape: int, dtype: Any = jnp.float32) -> Any:
    """Return drawn values."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def distance(found: Any, exact: Any) -> float:
    """Return the relative distance of a result on the device from one in float64."""
    found, exact = (
        np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(t)]) for t in (found, exact)
    )
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def in_float64(function: Callable[..., Any], *args: Any) -> Any:
    """Return the function's result in float64 on the host's processor."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        wide = jax.tree.map(lambda x: np.asarray(x, np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x, args)
        return jax.tree.map(np.asarray, jax.jit(function)(*wide))


def rows_of_functions(*, small: bool) -> Iterator[Row]:
    """Yield the rows of functions in float64: three rewrites, three planted errors, the device's kernel as it runs."""
    length, width = (32, 8) if small else (1024, 64)
    q, k, v = (floats(seed, 1, length, 2, width) for seed in range(3))
    given = [(q[:, :32], k[:, :32], v[:, :32])] * 2  # float64 on a processor: short rows are enough

    def blocks(q: Any, k: Any, v: Any) -> Any:
        return attend_in_blocks(q, k, v, 8)

    def wrong(q: Any, k: Any, v: Any) -> Any:
        return attend_in_blocks(q, k, v, 8, 1 + PLANTED)

    weights = {"a": floats(3, 64, 32), "b": floats(4, 32)}
    moments = jax.tree.map(jnp.zeros_like, weights), jax.tree.map(lambda w: 1e-9 + 0 * w, weights)
    state = (weights, jax.tree.map(jnp.sin, weights), *moments, jnp.float32(1.0))
    cases: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[Any, ...], bool, bool]] = [
        ("attention in blocks", attend, blocks, given[0], True, True),
        ("attention in blocks, rescaled by 1 + 2e-4", attend, wrong, given[0], True, False),
        ("Adam of one vector", adam, fused_adam, state, False, True),
        ("Adam, epsilon below the root", adam, lambda *a: fused_adam(*a, eps_inside=True), state, False, False),
        ("Adam without its correction", adam, lambda *a: adam(*a, corrected=False), state, False, False),
    ]
    for what, old, new, args, grad, same in cases:
        found = mv.same_function(old, new, *args, grad=grad)
        word = "same function" if same else "another function"
        told = f"{'same' if found.same else 'another'} function: {found.explain().removeprefix('one function: ')}"
        yield Row(what, told, word, found.same == same)

    named = kernel_of(jax.default_backend())
    if named is None:
        yield Row("the device's attention kernel", f"none for {jax.default_backend()}", "–", None)
        return
    narrow = [x.astype(jnp.bfloat16) for x in (q, k, v)]
    exact = in_float64(attend, *narrow)
    left, right = (distance(jax.jit(function)(*narrow), exact) for function in (attend, named[1]))
    text = f"{left:.1e} plainly, {right:.1e} by the kernel, from float64"
    yield Row(f"{named[0]} as it runs, bf16", text, "at most 2 × as far", right <= 2 * left)


def rows_of_times(*, small: bool) -> Iterator[Row]:
    """Yield the rows of times in turns: one program against itself, and against one with 2 % more layers."""
    size, layers, seconds = (64, 50, 2.0) if small else (2048, 50, 20.0)
    dtype = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16

    def chain(number: int) -> Callable[..., Any]:
        def run(x: Any, w: Any) -> Any:
            return jax.lax.fori_loop(0, number, lambda _, y: jnp.tanh(y @ w), x)

        return run

    x, w = floats(0, size, size, dtype=dtype), floats(1, size, size, dtype=dtype) / math.sqrt(size)
    same = mv.in_turns(chain(layers), chain(layers), x, w, seconds=seconds)
    yield Row("one program in turns with itself", str(same), "0 in the interval", not same.decided)
    more = mv.in_turns(chain(layers), chain(layers + 1), x, w, seconds=seconds)
    yield Row("2 % more layers", str(more), "about +2 %, decided", more.low > 0 and more.high < 0.05)


def rows_of_training(*, small: bool) -> Iterator[Row]:
    """Yield the rows of ten steps of seed-1b by maxview's own trainer, if it is installed and there is a device."""
    device = jax.default_backend()
    if small or device == "cpu" or importlib.util.find_spec("model.train") is None:
        return
    words = ["compare", "linen-vs-nnx", "--target", device, "--set", "steps=10", "--interleave", "off", "--json"]
    done = subprocess.run([sys.executable, "-m", "flows.cli", *words], capture_output=True, text=True, check=False)
    if not done.stdout:
        yield Row("seed-1b, Linen and NNX", done.stderr.strip().splitlines()[-1][:160], "same", False)
        return
    (record,) = json.loads(done.stdout)
    yield Row("seed-1b, Linen and NNX", record["headline"], "same", record["verdict"] == "same")
    for row in record["rows"]:
        if row["title"] == "MFU":
            yield Row("seed-1b: MFU", f"{row['baseline_text']} and {row['candidate_text']}", "–", None)


def main() -> int:
    """Print the table; return 1 if a row is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, for a processor")
    small = parser.parse_args().small
    device = jax.devices()[0]
    print(f"{device.device_kind} ({device.platform}) · jax {version('jax')}, jaxlib {version('jaxlib')} · "
          f"Python {platform.python_version()} · maxview_probe {version('maxview-probe')}\n")  # fmt: skip
    print("| | found | wanted | |\n|---|---|---|---|")
    wrong = 0
    for part in (rows_of_functions, rows_of_times, rows_of_training):
        for row in part(small=small):
            sign = "–" if row.right is None else "✓" if row.right else "✗"
            wrong += row.right is False
            found = row.found.replace("[", r"\[")  # in Markdown, `[0]['a']` is a link
            print(f"| {row.what} | {found} | {row.wanted} | {sign} |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
