"""A model of two layers, and its loss: input, parameters and a batch; output, a number."""

import jax
import jax.numpy as jnp
from data import VOCABULARY

WIDTH, HIDDEN = 16, 32


def init(seed: int = 0) -> dict:
    """Return drawn parameters."""
    keys = jax.random.split(jax.random.key(seed), 4)
    shapes = {"embed": (VOCABULARY, WIDTH), "up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH), "head": (WIDTH, VOCABULARY)}
    return {name: 0.3 * jax.random.normal(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)}


def logits_of(params: dict, tokens: jax.Array) -> jax.Array:
    """Return the logits of each token's successor."""
    x = params["embed"][tokens]
    x = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    hidden = jax.nn.silu(x @ params["up"])
    return (x + hidden @ params["down"]) @ params["head"]


def loss_of(params: dict, batch: dict) -> jax.Array:
    """Return the mean cross entropy."""
    logits = logits_of(params, batch["inputs"])
    chosen = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)
