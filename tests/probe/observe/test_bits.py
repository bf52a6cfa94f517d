"""Arrays of types without bits of their own are measured like any other."""

import jax
import numpy as np
import pytest

from maxview_probe.observe.bits import measure_array

pytestmark = pytest.mark.flows


def test_the_gradient_of_integers_has_no_bits() -> None:
    """JAX 0.8 and 0.9 return such arrays in the backward pass of a `shard_map` that takes integers."""
    norm, mean, largest, broken, _ = measure_array(np.zeros((3,), jax.dtypes.float0))
    assert (norm, mean, largest, broken) == (0.0, 0.0, 0.0, 0)
