"""Tests as users write them: a kernel, an optimizer, a layer, a sharded loss; and the examples of docs/library.md."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.experimental import pallas as pl

import maxview_probe as mv

pytestmark = pytest.mark.flows

PAGE = Path(__file__).parents[3] / "docs" / "library.md"
type Same = Callable[..., None]


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# ---------------------------------------------------------------- an attention kernel and its reference
BLOCK = 4


def attend(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T * q.shape[-1] ** -0.5) @ v


def flash(q: Any, k: Any, v: Any, rescale: float = 1.0) -> Any:
    """Attention over blocks of keys, with a running maximum; rescale: 1, or the size of a planted error."""

    def kernel(q_ref: Any, k_ref: Any, v_ref: Any, out_ref: Any) -> None:
        rows = q_ref[...] * q_ref.shape[-1] ** -0.5

        def block(n: Any, state: Any) -> Any:
            total, largest, norm = state
            keys, values = (ref[pl.dslice(n * BLOCK, BLOCK), :] for ref in (k_ref, v_ref))
            scores = rows @ keys.T
            new = jnp.maximum(largest, scores.max(-1, keepdims=True))
            powers, before = jnp.exp(scores - new), jnp.exp(largest - new) * rescale
            return total * before + powers @ values, new, norm * before + powers.sum(-1, keepdims=True)

        length = q_ref.shape[0]
        start = jnp.zeros(q_ref.shape), jnp.full((length, 1), -1e30), jnp.zeros((length, 1))
        total, _, norm = jax.lax.fori_loop(0, k_ref.shape[0] // BLOCK, block, start)
        out_ref[...] = total / norm

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype))(q, k, v)


def test_a_kernel_of_attention(same_function: Same) -> None:
    given = [jax.ShapeDtypeStruct((8, 16), jnp.float32)] * 3
    same_function(attend, flash, *given)
    found = mv.same_function(attend, lambda q, k, v: flash(q, k, v, 1.0005), *given)
    assert not found.same
    assert 1e-6 < found.largest < 1e-3
    assert any(root.is_new and "test_examples.py" in root.line for root in found.roots)


# ---------------------------------------------------------------- a fused optimizer
def adam(rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Callable[..., Any]:
    def update(params: Any, mu: Any, nu: Any, step: Any, gradients: Any) -> Any:
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, mu, gradients)
        nu = jax.tree.map(lambda n, g: b2 * n + (1 - b2) * g * g, nu, gradients)
        size = rate * jnp.sqrt(1 - b2 ** (step + 1.0)) / (1 - b1 ** (step + 1.0))
        moved = eps * jnp.sqrt(1 - b2 ** (step + 1.0))
        return jax.tree.map(lambda p, m, n: p - size * m / (jnp.sqrt(n) + moved), params, mu, nu)

    return update


def of_optax(params: Any, mu: Any, nu: Any, step: Any, gradients: Any) -> Any:
    optimizer = optax.adam(1e-2)
    state = (optax.ScaleByAdamState(step, mu, nu), optax.EmptyState())
    updates, _ = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates)


@pytest.mark.long
def test_a_fused_optimizer(same_function: Same) -> None:
    tree = {"kernel": floats(4, 3), "bias": floats(3)}
    squares = jax.tree.map(lambda one: one * one, tree)
    given = (tree, tree, squares, jnp.asarray(3, jnp.int32), tree)
    same_function(of_optax, adam(1e-2), *given)
    assert not mv.same_function(of_optax, adam(1e-2, eps=1e-7), *given)
    assert not mv.same_function(of_optax, adam(1.00001e-2), *given)


# ---------------------------------------------------------------- a refactored layer
class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.norm, self.wide = nnx.LayerNorm(8, rngs=rngs), nnx.Linear(8, 16, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return nnx.silu(self.wide(self.norm(x)))


def refactored(block: Block, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    x = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * block.norm.scale[...] + block.norm.bias[...]
    x = x @ block.wide.kernel[...] + block.wide.bias[...]
    return x * jax.nn.sigmoid(x)


@pytest.mark.filterwarnings("default::maxview_probe.UntriedWarning")  # Flax takes a variance of at least 0
def test_a_layer(same_function: Same) -> None:
    same_function(lambda block, x: block(x), refactored, Block(nnx.Rngs(0)), floats(3, 8), grad=True)


# ---------------------------------------------------------------- a sharded loss, in a process with four processors
SHARDED = """
import jax, jax.numpy as jnp, numpy as np
import maxview_probe as mv
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
x, w = np.eye(8, 16, dtype=np.float32) + 1, np.eye(16, 4, dtype=np.float32) + 0.5

def loss(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)

def sharded(collective):
    whole = lambda w, x: collective(loss(w, x), "data")
    return jax.shard_map(whole, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())

mv.assert_same_function(loss, sharded(jax.lax.pmean), w, x, grad=True)
found = mv.same_function(loss, sharded(jax.lax.psum), w, x, grad=True)
print(found.same, found.largest)
"""


def test_a_sharded_loss() -> None:
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    argv = [sys.executable, "-c", SHARDED]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)
    word, size = done.stdout.split() if not done.returncode else pytest.fail(done.stderr)
    assert word == "False"
    assert float(size) == pytest.approx(3.0)  # a sum in the place of the mean of four


def test_the_page(tmp_path: Path, same_function: Same) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "norms.py"
    file.write_text("\n".join(blocks))
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    names["test_new_norm"](same_function)
    shown = re.search(r"\n```\n(another function.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    printed, on_page = (re.sub(r"\d\.\de-\d+|\d\.\d ×", "#", text) for text in (str(names["result"]), shown[1].strip()))
    assert printed == on_page
