"""Turns the declared shapes of a decoder into its first weights, drawn by path so that every dialect draws the same."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from configs.schema import TrainConfig
from model.core import site_number
from model.initializers import Initializer, initializer_of

type Tree = Any  # nested dicts with arrays, shapes or shardings at the leaves


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


def init_params(config: TrainConfig, abstract: Tree) -> Tree:
    """The first weights: each parameter's key is the seed, its path without layer numbers, then its layer.

    `layers/…` holds all layers along `param_scan_axis`, `layers_3/…` the fourth alone, with the same key.

    Args:
        abstract: the declared parameters, a tree of `jax.ShapeDtypeStruct` with shardings.
    """
    seed_key = jax.random.key(config.init_weights_seed)

    def first_value(key_path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct) -> jax.Array:
        path = path_of(key_path)
        names = ["layers" if name.startswith("layers_") else name for name in path]
        key = jax.random.fold_in(seed_key, site_number("/".join(names)))
        for name in path:
            if name.startswith("layers_"):
                key = jax.random.fold_in(key, int(name.removeprefix("layers_")))
        drawn: jax.Array = draw(
            key,
            initializer=initializer_of(path),
            shape=leaf.shape,
            dtype=leaf.dtype,
            scan_axis=config.param_scan_axis if "layers" in path else None,
            sharding=leaf.sharding,
        )
        return drawn

    return jax.tree_util.tree_map_with_path(first_value, abstract)


def count_params(tree: Tree) -> int:
    """How many numbers a tree of arrays or shapes holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def flatten(tree: Tree, is_leaf: Callable[[Any], bool] | None = None) -> dict[str, Any]:
    """`{"params/decoder/…": leaf}` of a tree."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    return {"/".join(path_of(key_path)): leaf for key_path, leaf in leaves}


def is_spec(node: Any) -> bool:
    """Whether a node of a tree of logical axes is a leaf."""
    return isinstance(node, PartitionSpec)
