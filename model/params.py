"""Turns the declared shapes of a decoder into its first weights, drawn by path so that every dialect draws the same."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn import initializers
from jax.sharding import Mesh, PartitionSpec

from configs.schema import TrainConfig
from model.core import site_number
from model.sharding import named_shardings

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


def draw(seed_key: jax.Array, path: tuple[str, ...], shape: tuple[int, ...], dtype: Any, scan_axis: int) -> jax.Array:
    """The first value of one parameter: its key is the seed, its path without layer numbers, then its layer.

    `layers/…` holds all layers along `scan_axis`, `layers_3/…` the fourth alone; a layer has the same key in both.
    """
    initializer = initializer_of(path)
    names = ["layers" if name.startswith("layers_") else name for name in path]
    key = jax.random.fold_in(seed_key, site_number("/".join(names)))
    if "layers" in path:
        layers = jnp.arange(shape[scan_axis])
        keys_N = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, layers)
        one_layer = shape[:scan_axis] + shape[scan_axis + 1 :]
        return jax.vmap(lambda k: initializer(k, one_layer, dtype), out_axes=scan_axis)(keys_N)
    for name in path:
        if name.startswith("layers_"):
            key = jax.random.fold_in(key, int(name.removeprefix("layers_")))
    return initializer(key, shape, dtype)


def init_params(config: TrainConfig, abstract: Tree, axes: Tree, mesh: Mesh) -> Tree:
    """The first weights, each made where it will live.

    Args:
        abstract: the decoder's declared parameters, a tree of `jax.ShapeDtypeStruct`.
        axes: the same tree with a PartitionSpec of logical axis names at each leaf.
    """

    def make() -> Tree:
        seed_key = jax.random.key(config.init_weights_seed)
        return jax.tree_util.tree_map_with_path(
            lambda key_path, leaf: draw(seed_key, path_of(key_path), leaf.shape, leaf.dtype, config.param_scan_axis),
            abstract,
        )

    return jax.jit(make, out_shardings=named_shardings(mesh, axes))()


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
