"""The declaration of a parameter: shape, dtype, logical axes, initializer.

Linen stores it in the box around the value, NNX in the variable's metadata. First weights, shardings, counts and logs
are computed from declarations alone.
"""

import math
from dataclasses import dataclass
from typing import cast

import jax
import numpy as np

from model.decoder.initializers import Initializer


@dataclass(frozen=True)
class Declaration:
    """One parameter before it has values."""

    shape: tuple[int, ...]
    dtype: np.dtype
    axes: tuple[str, ...]  # logical names, keys of `sharding.RULES`
    initializer: Initializer

    @property
    def scan_axis(self) -> int | None:
        """The axis along which layers are stacked; None if the parameter belongs to one layer or to none."""
        return self.axes.index("layers") if "layers" in self.axes else None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def first_value(initializer: Initializer, key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Return a value for the API's own `init`, drawn on the host from `key`; works inside a trace too."""

    def draw(words: jax.Array) -> np.ndarray:
        return initializer(np.random.default_rng(np.asarray(words)), shape, dtype)

    like, words = jax.ShapeDtypeStruct(shape, dtype), jax.random.key_data(key)
    return cast(jax.Array, jax.pure_callback(draw, like, words, vmap_method="sequential"))
