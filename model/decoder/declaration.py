"""The declaration of a parameter: shape, type, logical axes, initializer.

Each API carries it through its own transforms: Linen in the box around the value, NNX in the variable's metadata.
First weights, shardings, counts and logs are computed from it alone.
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
    axes: tuple[str, ...]
    initializer: Initializer

    @property
    def scan_axis(self) -> int | None:
        """The axis along which layers are stacked, None if they are not."""
        return self.axes.index("layers") if "layers" in self.axes else None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def first_value(initializer: Initializer, key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Return the first value that the API's own `init` gives: drawn on the host from `key`, also under a trace."""

    def draw(words: jax.Array) -> np.ndarray:
        return initializer(np.random.default_rng(np.asarray(words)), shape, dtype)

    like, words = jax.ShapeDtypeStruct(shape, dtype), jax.random.key_data(key)
    return cast(jax.Array, jax.pure_callback(draw, like, words, vmap_method="sequential"))
