"""Turns a declaration into a parameter of Flax Linen: what a decoder file calls. Twin of `param_nnx.py`."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax import struct

from model.decoder.declaration import first_value
from model.decoder.initializers import Initializer


class Declared(nn.LogicallyPartitioned):
    """Linen's box of a value and its logical axes, with the initializer beside them."""

    initializer: Initializer | None = struct.field(default=None, pytree_node=False)


def linen_param(initializer: Initializer, axes: tuple[str, ...]) -> Callable[..., Any]:
    """What `Module.param` calls for its first value, and then takes out of its box."""

    def init(key: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> Declared:
        return Declared(first_value(initializer, key, shape, dtype), axes, initializer=initializer)

    return init
