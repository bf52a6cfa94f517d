"""A minimal custom trainer: layers in a loop, dropout, weight decay, one jitted step."""

import sys

import jax
import jax.numpy as jnp

STEPS, LAYERS, WIDTH = 3, 3, 16


def norm(x, epsilon=1e-5):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + epsilon)  # line: norm


def layer(x, weights, key):
    x = norm(x)
    h = jnp.tanh(x @ weights["up"])  # line: product
    kept = jax.random.bernoulli(key, 0.9, h.shape)  # line: dropout
    return x + jnp.where(kept, h / 0.9, 0.0) @ weights["down"]


def loss_of(params, batch, key):
    def body(x, both):
        weights, n = both
        return layer(x, weights, jax.random.fold_in(key, n)), None  # line: key

    x, _ = jax.lax.scan(jax.checkpoint(body), batch["x"], (params["layers"], jnp.arange(LAYERS)))
    logits = norm(x) @ params["head"]
    scale = 0.5  # line: scale
    return jnp.mean((logits * scale - batch["y"]) ** 2)


def update(w, g, m):
    m = 0.9 * m + 0.1 * g
    return w - 0.01 * (m + 0.1 * w), m  # line: decay


def train_step(state, batch):
    key = jax.random.fold_in(jax.random.key(0), state["step"])
    loss, grads = jax.value_and_grad(loss_of)(state["params"], batch, key)
    pairs = jax.tree.map(update, state["params"], grads, state["opt_state"]["mu"])
    both = [jax.tree.map(lambda p, i=i: p[i], pairs, is_leaf=lambda p: isinstance(p, tuple)) for i in (0, 1)]
    return {"params": both[0], "opt_state": {"mu": both[1]}, "step": state["step"] + 1}, loss


def first(seed):
    keys = jax.random.split(jax.random.key(seed), 3)
    layers = {"up": (LAYERS, WIDTH, 2 * WIDTH), "down": (LAYERS, 2 * WIDTH, WIDTH)}
    pairs = zip(keys[:2], layers.items(), strict=True)
    params = {"layers": {name: 0.1 * jax.random.normal(key, shape) for key, (name, shape) in pairs}}
    params["head"] = 0.1 * jax.random.normal(keys[2], (WIDTH, 4))
    return {"params": params, "opt_state": {"mu": jax.tree.map(jnp.zeros_like, params)}, "step": jnp.int32(0)}


def main(seed):
    state, step = first(seed), jax.jit(train_step, donate_argnums=0)
    for n in range(STEPS):
        x = jax.random.normal(jax.random.key(100 + n + seed), (4, WIDTH))
        state, loss = step(state, {"x": x, "y": x[:, :4]})
        sys.stdout.write(f"step {n} loss {float(loss)!r}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
