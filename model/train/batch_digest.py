"""Digests each step's batch, as the step is given it: with the order of its rows, and without."""

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from model.train.batch import Batch

BYTES = 6  # of a digest: an integer that JSON readers keep exactly


class BatchDigests:
    """Digests the batches of a run. The copy to the host runs beside the step."""

    def __init__(self) -> None:
        self.leaves: list[jax.Array] = []
        self.digests: dict[str, int] = {}

    def start_copy(self, batch: Batch) -> None:
        """Begin to copy a batch to the host; nothing for the arrays of the last batch (synthetic data)."""
        leaves = jax.tree.leaves(batch)
        if len(leaves) != len(self.leaves) or any(a is not b for a, b in zip(leaves, self.leaves, strict=True)):
            self.leaves, self.digests = leaves, {}
            for leaf in leaves:
                for shard in leaf.addressable_shards:
                    shard.data.copy_to_host_async()

    def read(self) -> dict[str, int]:
        """Return `batch_digest` and, without the order of the rows, `batch_rows_digest` of the last copied batch."""
        if not self.digests:
            self.digests = digest_rows(list(zip(*map(pieces_of, self.leaves), strict=True)))
        return self.digests


def pieces_of(array: jax.Array) -> list[np.ndarray[Any, Any]]:
    """Return the different pieces of an array that this process holds, in the order of their places."""
    shards = [shard for shard in array.addressable_shards if shard.replica_id == 0]
    place = lambda shard: [piece.start or 0 for piece in shard.index]  # noqa: E731
    return [np.asarray(shard.data) for shard in sorted(shards, key=place)]


def digest_rows(pieces: Sequence[Sequence[np.ndarray[Any, Any]]]) -> dict[str, int]:
    """Return both digests of a batch. pieces: per device, one array [rows, …] per field of the batch."""
    rows = [
        hashlib.blake2b(b"".join(array[row].tobytes() for array in fields), digest_size=BYTES).digest()
        for fields in pieces
        for row in range(len(fields[0]))
    ]
    return {"batch_digest": _join(rows), "batch_rows_digest": _join(sorted(rows))}


def _join(rows: Sequence[bytes]) -> int:
    return int.from_bytes(hashlib.blake2b(b"".join(rows), digest_size=BYTES).digest(), "big")
