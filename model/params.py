"""Turns the declared shapes of a decoder into its first weights, drawn by path so that every dialect draws the same."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.nn import initializers
from jax.sharding import NamedSharding, PartitionSpec

from configs.schema import TrainConfig
from model.core import site_number

type Initializer = Callable[..., jax.Array]
type Tree = Any  # nested dicts with arrays, shapes or shardings at the leaves


def query_initializer(key: jax.Array, shape: tuple[int, int, int], dtype: Any) -> jax.Array:
    """Normal of variance 1 / (E·K): the attention logits' 1/√K lives here, and not in the attention."""
    return _attention(key, shape, dtype) / jnp.sqrt(jnp.asarray(shape[-1], dtype))


_attention = initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=0, out_axis=(1, 2))
_dense = initializers.variance_scaling(1.0, "fan_in", "truncated_normal", in_axis=0, out_axis=1)

# By the name of the module that holds the parameter; the distributions are MaxText's.
INITIALIZERS: dict[str, Initializer] = {
    "token_embedder": initializers.normal(1.0),
    "norm": initializers.ones,
    "query": query_initializer,
    "key": _attention,
    "value": _attention,
    "out": initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=(0, 1), out_axis=2),
    "wi_0": _dense,
    "wi_1": _dense,
    "wo": _dense,
    "logits_dense": _dense,
}


def path_of(key_path: tuple[Any, ...]) -> tuple[str, ...]:
    """A JAX key path as names, whatever kind of container they came from."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in key_path)


def initializer_of(path: tuple[str, ...]) -> Initializer:
    """The distribution of the parameter at a path, such as (…, "mlp", "wi_0", "kernel")."""
    return INITIALIZERS["norm" if path[-1] == "scale" else path[-2]]


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
        keys_N = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(shape[scan_axis]))
        one_layer = shape[:scan_axis] + shape[scan_axis + 1 :]
        drawn = jax.vmap(lambda layer_key: initializer(layer_key, one_layer, dtype), out_axes=scan_axis)(keys_N)
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
