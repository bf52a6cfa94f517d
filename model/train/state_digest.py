"""Checksums of the bits of arrays, independent of their sharding. They are computed where the arrays are."""

import hashlib
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from model.decoder.params import Tree, flatten

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}
BLOCK = 1 << 20  # elements per read on the host


def mix[A: (jax.Array, NDArray[np.uint32])](word: A) -> A:
    """Return a hash of each 32-bit word (Murmur3's finaliser)."""
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    word = (word ^ (word >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return word ^ (word >> np.uint32(16))


def words_of[A: (jax.Array, NDArray[np.uint32])](bits: A, position: A) -> tuple[A, A]:
    """Return two hashes per element, of its bits and its position."""
    first = mix(bits + mix(position + np.uint32(0x9E3779B9)))
    return first, mix(first ^ np.uint32(0x7F4A7C15))


@jax.jit
def checksum(x: jax.Array) -> jax.Array:
    """Return two 32-bit words: the sums over the elements of their hashes. Compiles one program per shape.

    A sum modulo 2³² does not depend on the order of addition, and therefore not on the sharding.
    """
    bits = jax.lax.bitcast_convert_type(x, UNSIGNED[x.dtype.itemsize]).astype(jnp.uint32)
    position = jnp.zeros(x.shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(x.ndim)):
        position += jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis) * jnp.uint32(stride % 2**32)
        stride *= x.shape[axis]
    return jnp.stack([jnp.sum(word, dtype=jnp.uint32) for word in words_of(bits, position)])


def checksum_on_host(x: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the same as `checksum`, but compile nothing: a compile per shape takes longer than ten small steps."""
    bits = x.reshape(-1).view(UNSIGNED[x.dtype.itemsize])
    total = np.zeros(2, np.uint32)
    for start in range(0, bits.size, BLOCK):
        block = bits[start : start + BLOCK].astype(np.uint32)
        position = np.arange(start, start + block.size, dtype=np.uint64).astype(np.uint32)
        total += np.stack([word.sum(dtype=np.uint32) for word in words_of(block, position)])
    return total


def checksum_of(x: jax.Array) -> jax.Array | NDArray[np.uint32]:
    """Return the checksum of an array, computed on the host if all its devices are CPUs, else on its devices."""
    here = x.is_fully_addressable and all(device.platform == "cpu" for device in x.devices())
    return checksum_on_host(np.asarray(x)) if here else checksum(on_device(x))


def on_device(x: jax.Array) -> jax.Array:
    """Return an array in its devices' memory, moved there if it is in pinned host memory."""
    if x.sharding.memory_kind != "pinned_host":
        return x
    return cast(jax.Array, jax.device_put(x, x.sharding.with_memory_kind("device")))


def digest_state(tree: Tree) -> dict[str, Any]:
    """Return `{"arrays": {path: 16 hex digits}, "digest": sha256 over all paths, shapes, types and checksums}`."""
    leaves = flatten(tree)
    sums = jax.device_get([checksum_of(leaf) for leaf in leaves.values()])
    arrays = {path: f"{int(a):08x}{int(b):08x}" for path, (a, b) in zip(leaves, sums, strict=True)}
    whole = hashlib.sha256()
    for path in sorted(arrays):
        whole.update(f"{path} {leaves[path].shape} {leaves[path].dtype} {arrays[path]}\n".encode())
    return {"arrays": arrays, "digest": whole.hexdigest()}


def measure_state(tree: Tree) -> dict[str, tuple[str, float | None]]:
    """Return path → (checksum, Euclidean norm) of each array; the norm is None if other processes hold parts of it."""
    arrays = flatten(tree)
    return {path: (digest, _norm(arrays[path])) for path, digest in digest_state(tree)["arrays"].items()}


def _norm(x: jax.Array) -> float | None:
    return float(np.linalg.norm(np.asarray(x, np.float64))) if x.is_fully_addressable else None


def describe_change(before: dict[str, tuple[str, float | None]], tree: Tree) -> str:
    """Return how many arrays differ from those that `measure_state` measured, and how the first does; "" if none."""
    after = measure_state(tree)
    different = [path for path in before if after.get(path, ("", None))[0] != before[path][0]]
    if not different:
        return ""
    first, x = different[0], flatten(tree).get(different[0])
    what = f"{len(different)} of {len(before)} arrays differ, first {first}"
    if x is None:
        return f"{what}, which is missing"
    norms = f"norm {before[first][1]:.9g} → {after[first][1]:.9g}" if after[first][1] is not None else "other bits"
    is_rounded = x.dtype == jnp.float32 and bool((x.astype(jnp.bfloat16).astype(x.dtype) == x).all())
    return f"{what}: {x.dtype}, {norms}" + (", every value rounded to bfloat16" if is_rounded else "")
