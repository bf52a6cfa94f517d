"""Checksums of bits: every bit and every position counts, the sharding does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from model.train.state_digest import BLOCK, checksum, checksum_on_host, describe_change, digest_state, measure_state

pytestmark = pytest.mark.flows


def one(x: jax.Array) -> str:
    return str(digest_state({"x": x})["arrays"]["x"])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_any_flipped_bit_and_any_swapped_pair_is_detected(dtype: jnp.dtype) -> None:
    x = (100 * jax.random.normal(jax.random.key(0), (7, 5))).astype(dtype)
    width = x.dtype.itemsize * 8
    seen = {one(x)}
    for bit in range(width):
        words = np.asarray(x).view(f"u{x.dtype.itemsize}").copy()
        words[3, 2] ^= words.dtype.type(1 << bit)
        seen.add(one(jnp.asarray(words.view(np.asarray(x).dtype))))
    swapped = np.asarray(x).copy()
    swapped[0, 0], swapped[6, 4] = swapped[6, 4], swapped[0, 0]
    seen.add(one(jnp.asarray(swapped)))
    assert len(seen) == width + 2


def test_zero_and_minus_zero_and_two_nans_differ() -> None:
    values = np.asarray([0x0, 0x80000000, 0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert len({one(jnp.asarray(value)) for value in values}) == 4


def test_the_sharding_of_an_array_does_not_count() -> None:
    x = jax.random.normal(jax.random.key(0), (8, 3, 16))
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    for spec in (PartitionSpec("a", None, "b"), PartitionSpec(None, None, "a"), PartitionSpec(("b", "a"))):
        np.testing.assert_array_equal(checksum(jax.device_put(x, NamedSharding(mesh, spec))), checksum(x))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int8])
@pytest.mark.parametrize("shape", [(), (0,), (7, 5), (3, BLOCK // 2 + 1)])
def test_host_and_devices_agree(shape: tuple[int, ...], dtype: jnp.dtype) -> None:
    x = (100 * jax.random.normal(jax.random.key(1), shape)).astype(dtype)
    np.testing.assert_array_equal(checksum_on_host(np.asarray(x)), checksum(x))


def test_the_whole_digest_depends_on_paths_and_shapes() -> None:
    x = jnp.arange(6, dtype=jnp.float32)
    whole = [digest_state(tree)["digest"] for tree in ({"a": x}, {"b": x}, {"a": x.reshape(2, 3)}, {"a": x, "b": x})]
    assert len(set(whole)) == 4


def test_an_array_that_comes_back_with_other_bits_is_described_by_its_norms() -> None:
    state = {"count": jnp.int32(3), "mu": {"w": jnp.asarray([3.001, 4.0], jnp.float32)}}
    saved = measure_state(state)
    assert describe_change(saved, state) == ""
    rounded = jax.tree.map(lambda x: x.astype(jnp.bfloat16).astype(x.dtype), state)
    assert describe_change(saved, rounded) == (
        f"1 of 2 arrays differ, first mu/w: float32, norm {np.hypot(float(np.float32(3.001)), 4.0):.9g} → 5, "
        "every value rounded to bfloat16"
    )
    moved = {"count": jnp.int32(4), "mu": {"w": state["mu"]["w"] * 1.001}}
    assert describe_change(saved, moved).startswith("2 of 2 arrays differ, first count: int32, norm 3 → 4")
    assert describe_change(saved, {"mu": state["mu"]}) == "1 of 2 arrays differ, first count, which is missing"
