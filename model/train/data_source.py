"""The data of a run: texts, or as in MaxText the same batch of random tokens for every step (synthetic data)."""

from typing import TYPE_CHECKING, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from configs.schema import TrainConfig
from model.decoder.sharding import global_batch_size, mesh_spec
from model.train.batch import Batch

if TYPE_CHECKING:
    import grain  # slow to import


class DataSource(Protocol):
    """Yields one batch per step."""

    described: dict[str, str]  # identifies the texts, for `configs.same_run`; empty for synthetic data

    @property
    def iterator(self) -> "grain.DatasetIterator | None":
        """Grain's iterator, saved with every checkpoint; None for synthetic data."""
        ...

    def next(self) -> Batch: ...


def batch_shape(config: TrainConfig, mesh: Mesh) -> Batch[jax.ShapeDtypeStruct]:
    """Return the shapes, types and shardings of a batch."""
    shape = (global_batch_size(config, mesh), config.max_target_length)
    sharding = NamedSharding(mesh, mesh_spec(("activation_batch", "activation_length")))
    array = jax.ShapeDtypeStruct(shape, np.int32, sharding=sharding)
    return Batch(array, array, array, None if config.dataset_type == "synthetic" else array, array)


class Synthetic:
    """The same batch of uniform random tokens for every step. Every process draws all of it and keeps its shards."""

    iterator = None
    described: dict[str, str] = {}

    def __init__(self, config: TrainConfig, mesh: Mesh, *, evaluation: bool = False):
        declared = batch_shape(config, mesh)
        rows, length = declared.inputs.shape
        rng = np.random.default_rng([config.data_shuffle_seed, 1] if evaluation else config.data_shuffle_seed)
        tokens_BM = rng.integers(0, config.vocab_size, size=(rows, length + 1), dtype=np.int32)
        positions_BL = np.broadcast_to(np.arange(length, dtype=np.int32), (rows, length))
        host = Batch(tokens_BM[:, :-1], tokens_BM[:, 1:], positions_BL, None, np.ones((rows, length), np.int32))
        self.batch: Batch = jax.tree.map(
            lambda array, kind: jax.make_array_from_callback(kind.shape, kind.sharding, lambda index: array[index]),
            host,
            declared,
        )

    def next(self) -> Batch:
        return self.batch


def make_source(config: TrainConfig, mesh: Mesh, *, evaluation: bool = False) -> DataSource:
    """Return the data source for `dataset_type`, for training or for evaluation."""
    if config.dataset_type == "synthetic":
        return Synthetic(config, mesh, evaluation=evaluation)
    from model.train.corpus import Corpus  # its libraries are slow to import

    return Corpus(config, mesh, batch_shape(config, mesh), evaluation=evaluation)
