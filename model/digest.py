"""Turns a tree of arrays into checksums of their bits, computed where the arrays live, so that equal means equal."""

import hashlib
from typing import Any, cast

import jax
import jax.numpy as jnp

from model.params import flatten

type Tree = Any

UNSIGNED = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}


def mix(word: jax.Array) -> jax.Array:
    """Spread every bit of 32-bit words over the word (Murmur3's finaliser)."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


@jax.jit
def checksum(x: jax.Array) -> jax.Array:
    """Two 32-bit words over the bits of an array and where each stands.

    A sum modulo 2³² is the same in whatever order devices add, so it does not depend on how the array is split.
    """
    bits = jax.lax.bitcast_convert_type(x, UNSIGNED[x.dtype.itemsize]).astype(jnp.uint32)
    position = jnp.zeros(x.shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(x.ndim)):
        position += jax.lax.broadcasted_iota(jnp.uint32, x.shape, axis) * jnp.uint32(stride % 2**32)
        stride *= x.shape[axis]
    first = mix(bits + mix(position + jnp.uint32(0x9E3779B9)))
    second = mix(first ^ jnp.uint32(0x7F4A7C15))
    return jnp.stack([jnp.sum(first, dtype=jnp.uint32), jnp.sum(second, dtype=jnp.uint32)])


def on_device(x: jax.Array) -> jax.Array:
    """An array out of the host's memory, where it may wait, brought to its devices."""
    if x.sharding.memory_kind != "pinned_host":
        return x
    return cast(jax.Array, jax.device_put(x, x.sharding.with_memory_kind("device")))


def digest(tree: Tree) -> dict[str, Any]:
    """`{"arrays": {path: 16 hex digits}, "digest": sha256 over all paths, shapes, types and checksums}`."""
    leaves = flatten(tree)
    # one program per shape: parameters and their moments share them
    sums = jax.device_get([checksum(on_device(leaf)) for leaf in leaves.values()])
    arrays = {path: f"{int(a):08x}{int(b):08x}" for path, (a, b) in zip(leaves, sums, strict=True)}
    whole = hashlib.sha256()
    for path in sorted(arrays):
        whole.update(f"{path} {leaves[path].shape} {leaves[path].dtype} {arrays[path]}\n".encode())
    return {"arrays": arrays, "digest": whole.hexdigest()}
