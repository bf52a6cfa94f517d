"""Arrays of types without bits of their own are measured like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxview_probe.observe.bits import from_bits, measure_array, to_bits

pytestmark = pytest.mark.flows


def test_the_gradient_of_integers_has_no_bits() -> None:
    """JAX 0.8 and 0.9 return such arrays in the backward pass of a `shard_map` that takes integers."""
    norm, mean, largest, broken, _ = measure_array(np.zeros((3,), jax.dtypes.float0))
    assert (norm, mean, largest, broken) == (0.0, 0.0, 0.0, 0)


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_replaced_array_has_a_device_of_its_own_only_if_the_arms_array_has(*, is_committed: bool) -> None:
    """A step that is compiled for several devices refuses arrays that have another device of their own."""
    own = jnp.zeros(4)
    like = jax.device_put(own, jax.devices()[0]) if is_committed else own
    found = from_bits(to_bits(jnp.arange(4.0)), like)
    assert found.committed is is_committed
    assert found.tolist() == [0, 1, 2, 3]
