"""Draws the first weights of a decoder by path, so that both APIs start from the same bits.

numpy draws on the host, because JAX would compile one program per shape before the first step, and its values would
depend on the sharding. The random numbers depend on seed, path and layer only, so they are equal on every mesh,
scanned or unrolled.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from model.decoder.declaration import Declaration
from model.decoder.layers import site_number

type Tree = Any  # nested dicts with arrays, shapes or shardings at the leaves
LAYER_NUMBER = re.compile(r"(?<=layers)_(\d+)(?=/)")


def path_of(key_path: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names in a JAX key path, for any kind of container."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in key_path)


def draw(seed: int, path: str, declaration: Declaration, sharding: NamedSharding) -> jax.Array:
    """Draw one array and place it on its devices. Its bits are the same on every mesh and every kind of device.

    The random numbers of a layer depend on the seed, its path without numbers, and its number. `layers/…` contains all
    layers along `declaration.scan_axis`, and `layers_3/…` the fourth layer alone.
    """
    entropy = [seed, site_number(LAYER_NUMBER.sub("", path))]
    axis, shape, dtype = declaration.scan_axis, declaration.shape, declaration.dtype
    if axis is None:
        entropy += map(int, LAYER_NUMBER.findall(path))
        values = declaration.initializer(np.random.default_rng(entropy), shape, dtype)
    else:
        values = np.empty(shape, dtype)

        def fill(layer: int) -> None:
            part = np.moveaxis(values, axis, 0)[layer]
            part[...] = declaration.initializer(np.random.default_rng([*entropy, layer]), part.shape, dtype)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # numpy releases Python's lock while it draws and copies
            list(pool.map(fill, range(shape[axis])))
    return jax.make_array_from_callback(shape, sharding, values.__getitem__)


def draw_params(
    seed: int, declared: dict[str, Declaration], shardings: dict[str, NamedSharding]
) -> dict[str, jax.Array]:
    """Return path → first weights. `declared` and `shardings` have the same paths."""
    return {path: draw(seed, path, one, shardings[path]) for path, one in declared.items()}


def count_params(declared: dict[str, Declaration]) -> int:
    """Return the number of parameters."""
    return sum(declaration.size for declaration in declared.values())


def flatten(tree: Tree) -> dict[str, Any]:
    """Return a tree as `{"params/decoder/…": leaf}`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {"/".join(path_of(key_path)): leaf for key_path, leaf in leaves}


def unflatten(leaves: dict[str, Any]) -> dict[str, Tree]:
    """Return `{"params/decoder/…": leaf}` as nested dicts."""
    tree: dict[str, Tree] = {}
    for path, leaf in leaves.items():
        *names, last = path.split("/")
        node = tree
        for name in names:
            node = node.setdefault(name, {})
        node[last] = leaf
    return tree
