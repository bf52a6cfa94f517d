"""Turns a random key into the first values of one array. The distributions are MaxText's."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

type Initializer = Callable[[jax.Array, tuple[int, ...], Any], jax.Array]  # (key, shape, dtype)

# standard deviation of a standard normal cut off at ±2
CUT_DEVIATION = 0.87962566103423978


@dataclass(frozen=True)
class Normal:
    """Normal values of mean 0 and variance 1 / (product of the sizes of `fan_axes`).

    Drawn flat and then shaped: for a draw of rank 3 XLA's CPU compiler takes a second over the index arithmetic alone,
    for one of rank 1 a tenth of that.
    """

    fan_axes: tuple[int, ...]
    cut: bool = False  # at two standard deviations, and then widened to the full variance

    def __call__(self, key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        deviation = math.prod(shape[axis] for axis in self.fan_axes) ** -0.5
        size = (math.prod(shape),)
        if self.cut:
            values = jax.random.truncated_normal(key, -2.0, 2.0, size, dtype)
            deviation /= CUT_DEVIATION
        else:
            values = jax.random.normal(key, size, dtype)
        return values.reshape(shape) * jnp.asarray(deviation, dtype)


def ones(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """1 everywhere."""
    del key
    return jnp.ones(shape, dtype)


# By the name of the module that holds the parameter.
INITIALIZERS: dict[str, Initializer] = {
    "token_embedder": Normal(()),
    "norm": ones,
    "query": Normal((0, 2)),  # 1 / (E·K) and not 1 / E: the attention logits' factor 1 / √K lives here
    "key": Normal((0,)),
    "value": Normal((0,)),
    "out": Normal((0, 1)),
    "wi_0": Normal((0,), cut=True),
    "wi_1": Normal((0,), cut=True),
    "wo": Normal((0,), cut=True),
    "logits_dense": Normal((0,), cut=True),
    "gate": Normal((0,), cut=True),
    "expert": Normal((1,), cut=True),
    "low_rank": Normal((0,), cut=True),  # latent attention: into a low rank and out of it
}
