"""Makes a parameter of Flax Linen that carries its declaration. `param_nnx.py` does the same in NNX."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import struct

from model.decoder.declaration import first_value
from model.decoder.initializers import Initializer


class Declared(nn.LogicallyPartitioned):
    """Linen's box around a value, with its logical axes and its initializer."""

    initializer: Initializer | None = struct.field(default=None, pytree_node=False)


def linen_param(initializer: Initializer, axes: tuple[str, ...]) -> Callable[..., Any]:
    """Return an init function for `Module.param`, which takes the value out of its box."""

    def init(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> Declared:
        return Declared(first_value(initializer, key, shape, dtype), axes, initializer=initializer)

    return init
