"""The batch of one step: what is read, what is to be predicted, and how much each prediction counts."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import TypeVar

Array = TypeVar("Array", default=jax.Array)  # or what stands for one: a shape, an array of the host


class Batch(NamedTuple, Generic[Array]):
    """Token arrays with the axes B, L. Where several texts share a sequence, `segment_ids` tells them apart."""

    inputs: Array
    targets: Array
    positions: Array  # of each token in its own text
    segment_ids: Array | None  # 1, 2, … per text and 0 for padding; None where a sequence is one text
    weights: Array  # int32: 1 counts, 0 is padding


def total_weights(batch: Batch) -> jax.Array:
    """How many predictions count."""
    return jnp.sum(batch.weights, dtype=jnp.int32)


def split_batch(batch: Batch, parts: int) -> Batch:
    """The batch as `parts` smaller ones along a new first axis; every device keeps sequences that it already has.

    Sequence b goes to part b mod `parts`, so that the sequences of one device are spread over all parts.
    """
    split: Batch = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(-1, parts, *x.shape[1:]), 1, 0), batch)
    return split
