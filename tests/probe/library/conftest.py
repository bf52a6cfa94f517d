"""The library's tests broadcast as its users do, whatever the tests of our own trainer have set in this process."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def _broadcasting() -> Iterator[None]:
    with jax.numpy_rank_promotion("allow"):
        yield
