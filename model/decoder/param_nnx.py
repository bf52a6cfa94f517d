"""Makes a parameter of Flax NNX that carries its declaration. `param_linen.py` does the same in Linen."""

import jax
import numpy as np
from flax import nnx

from model.decoder.declaration import first_value
from model.decoder.initializers import Initializer


def nnx_param(
    initializer: Initializer, axes: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype, rngs: nnx.Rngs
) -> nnx.Param[jax.Array]:
    """Return a parameter with its logical axes and its initializer as metadata."""
    value = first_value(initializer, rngs.params(), shape, dtype)
    return nnx.Param(value, out_sharding=axes, eager_sharding=False, initializer=initializer)
