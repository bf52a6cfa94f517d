"""Turns the declared shapes of a decoder into its first weights, drawn by path so that every dialect draws the same."""

import re
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from model.core import site_number
from model.declaration import Declaration
from model.initializers import Initializer

type Tree = Any  # nested dicts with arrays, shapes or shardings at the leaves
LAYER_NUMBER = re.compile(r"(?<=layers)_(\d+)(?=/)")


def path_of(key_path: tuple[Any, ...]) -> tuple[str, ...]:
    """A JAX key path as names, whatever kind of container they came from."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in key_path)


@partial(jax.jit, static_argnames=("initializer", "shape", "dtype", "scan_axis", "sharding"))
def draw(
    key: jax.Array,
    *,
    initializer: Initializer,
    shape: tuple[int, ...],
    dtype: Any,
    scan_axis: int | None,
    sharding: NamedSharding,
) -> jax.Array:
    """One array where it will live. With a `scan_axis` every layer along it has the key with its number folded in.

    The key is an argument so that parameters of one shape and distribution share one compilation.
    """
    if scan_axis is None:
        drawn = initializer(key, shape, dtype)
    else:
        one_layer = shape[:scan_axis] + shape[scan_axis + 1 :]

        def draw_layer(layer: jax.Array) -> jax.Array:
            return initializer(jax.random.fold_in(key, layer), one_layer, dtype)

        drawn = jnp.moveaxis(jax.lax.map(draw_layer, jnp.arange(shape[scan_axis])), 0, scan_axis)
    return cast(jax.Array, jax.lax.with_sharding_constraint(drawn, sharding))


def draw_params(
    seed: int, declared: dict[str, Declaration], shardings: dict[str, NamedSharding]
) -> dict[str, jax.Array]:
    """The first weights by path: each one's key is the seed, its path without layer numbers, then its layer.

    `layers/…` holds all layers along the axis that its declaration names, `layers_3/…` the fourth alone, with the
    same key.
    """
    drawn = {}
    for path, declaration in declared.items():
        numbered = LAYER_NUMBER.search(path)
        key = jax.random.fold_in(jax.random.key(seed), site_number(LAYER_NUMBER.sub("", path)))
        if numbered:
            key = jax.random.fold_in(key, int(numbered[1]))
        drawn[path] = draw(
            key,
            initializer=declaration.initializer,
            shape=declaration.shape,
            dtype=declaration.dtype,
            scan_axis=declaration.scan_axis,
            sharding=shardings[path],
        )
    return drawn


def count_params(declared: dict[str, Declaration]) -> int:
    """How many numbers the parameters hold."""
    return sum(declaration.size for declaration in declared.values())


def flatten(tree: Tree) -> dict[str, Any]:
    """`{"params/decoder/…": leaf}` of a tree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"/".join(path_of(key_path)): leaf for key_path, leaf in leaves}


def unflatten(leaves: dict[str, Any]) -> dict[str, Tree]:
    """Nested dicts of `{"params/decoder/…": leaf}`."""
    tree: dict[str, Tree] = {}
    for path, leaf in leaves.items():
        *names, last = path.split("/")
        node = tree
        for name in names:
            node = node.setdefault(name, {})
        node[last] = leaf
    return tree
