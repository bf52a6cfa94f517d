"""The digest of a batch: equal for equal rows, another for another order, and one of its rows without their order."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from model.train.batch import Batch
from model.train.batch_digest import BatchDigests

pytestmark = pytest.mark.flows

TOKENS = np.arange(32, dtype=np.int32).reshape(8, 4)


def digests_of(tokens: np.ndarray, *, devices: int = 1) -> dict[str, int]:
    mesh = Mesh(np.array(jax.devices()[:devices]), ("data",))
    place = NamedSharding(mesh, PartitionSpec("data"))
    batch = jax.tree.map(
        lambda one: jax.device_put(one, place), Batch(tokens, tokens + 1, tokens % 2, None, np.ones_like(tokens))
    )
    digests = BatchDigests()
    digests.start_copy(batch)
    return digests.read()


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (TOKENS.copy(), (True, True)),
        (TOKENS[::-1], (False, True)),
        (np.roll(TOKENS, 1, axis=0), (False, True)),
        (TOKENS[:, ::-1], (False, False)),  # other rows
        (np.where(TOKENS == 31, 7, TOKENS), (False, False)),
        (TOKENS.reshape(4, 8), (False, False)),
    ],
)
def test_rows_and_their_order(other: np.ndarray, equal: tuple[bool, bool]) -> None:
    left, right = digests_of(TOKENS), digests_of(other)
    assert tuple(left[name] == right[name] for name in ("batch_digest", "batch_rows_digest")) == equal
    assert all(0 <= value < 2**53 for value in left.values())


@pytest.mark.skipif(jax.device_count() < 2, reason="one device")
def test_devices_that_share_the_rows_have_the_digest_of_one() -> None:
    assert digests_of(TOKENS, devices=2) == digests_of(TOKENS)


def test_an_unchanged_batch_is_read_once() -> None:
    batch = jax.tree.map(jax.numpy.asarray, Batch(TOKENS, TOKENS, TOKENS, None, TOKENS))
    digests = BatchDigests()
    digests.start_copy(batch)
    first = digests.read()
    digests.start_copy(batch)
    assert digests.read() is first
    digests.start_copy(batch._replace(inputs=batch.inputs + 1))
    assert digests.read() != first
