"""The batch of one step: inputs, targets, and the weight of each prediction."""

from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import TypeVar

Array = TypeVar("Array", default=jax.Array)  # or numpy's on the host, or ShapeDtypeStruct


class Batch(NamedTuple, Generic[Array]):
    """Arrays of tokens with the axes B, L. If several texts share a sequence, `segment_ids` distinguishes them."""

    inputs: Array
    targets: Array
    positions: Array  # of each token within its text
    segment_ids: Array | None  # 1, 2, … per text and 0 for padding; None if every sequence is one text
    weights: Array  # int32: 1 if the prediction counts in the loss, 0 for padding


def total_weights(batch: Batch) -> jax.Array:
    """Return the number of predictions that count in the loss."""
    return jnp.sum(batch.weights, dtype=jnp.int32)


def split_batch(batch: Batch, parts: int) -> Batch:
    """Split a batch into `parts` along a new first axis; no sequence moves to another device.

    Sequence b goes to part b mod `parts`, so that the sequences of one device are spread over all parts.
    """
    split: Batch = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(-1, parts, *x.shape[1:]), 1, 0), batch)
    return split
