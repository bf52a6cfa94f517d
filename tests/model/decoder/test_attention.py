"""The attention kernels: each computes the same as the plain one, for one text and for several in a sequence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from model.decoder.attention import dot_product, jax_attention, splash_on_device

pytestmark = pytest.mark.flows


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("core", ["jax_attention", "splash"])
def test_a_kernel_attends_like_the_plain_one(core: str, several: bool) -> None:
    """Values and gradients, with two query heads to a key head; the kernel of the TPU is interpreted."""
    keys = jax.random.split(jax.random.key(0), 3)
    query, key, value = (
        jax.random.normal(one, (2, 128, heads, 128)) * 0.1 for one, heads in zip(keys, (2, 1, 1), strict=True)
    )
    ids = jnp.repeat(jnp.array([[1, 2], [1, 1]]), 64, axis=1) if several else None

    def run(name: str) -> list[np.ndarray]:
        cores = {"plain": dot_product, "jax_attention": jax_attention, "splash": splash_on_device}
        extra = {"interpret": True} if name == "splash" else {}

        def total(query: jax.Array, key: jax.Array, value: jax.Array) -> tuple[jax.Array, jax.Array]:
            attended = cores[name](query, key, value, ids, **extra)
            return jnp.sum(attended**2), attended

        # the kernel's own broadcasting is not ours to fix
        with jax.default_matmul_precision("highest"), jax.numpy_rank_promotion("allow"):
            gradients, attended = jax.jit(jax.grad(total, argnums=(0, 1, 2), has_aux=True))(query, key, value)
        return [np.asarray(array) for array in (attended, *gradients)]

    for ours, theirs in zip(run(core), run("plain"), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)  # float32, sums in another order
