"""Turns a seed into the synthetic batch: one fixed batch of random tokens, the same at every step, as in MaxText."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from configs.schema import TrainConfig
from model.sharding import global_batch_size, mesh_spec


def batch_shape(config: TrainConfig, mesh: Mesh) -> jax.ShapeDtypeStruct:
    """Shape, type and placement of the batch tokens_BM, M = max_target_length + 1."""
    shape = (global_batch_size(config, mesh), config.max_target_length + 1)
    sharding = NamedSharding(mesh, mesh_spec(("activation_batch", "activation_length")))
    return jax.ShapeDtypeStruct(shape, np.int32, sharding=sharding)


def synthetic_batch(config: TrainConfig, mesh: Mesh) -> jax.Array:
    """tokens_BM, each token equally likely. Drawn on the host: every process draws all and keeps its part."""
    declared = batch_shape(config, mesh)
    rng = np.random.default_rng(config.data_shuffle_seed)
    tokens_BM = rng.integers(0, config.vocab_size, size=declared.shape, dtype=np.int32)
    return jax.make_array_from_callback(declared.shape, declared.sharding, lambda index: tokens_BM[index])
