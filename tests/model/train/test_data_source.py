"""The synthetic batch: fixed by its seed, in range, the same at every step."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

from configs.schema import TrainConfig
from model.decoder.sharding import make_mesh
from model.train.data_source import make_source

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


def test_the_seed_decides_and_every_token_is_in_the_vocabulary(mini_config: MiniConfig) -> None:
    def tokens(seed: int) -> np.ndarray:
        config = mini_config(data_shuffle_seed=seed, per_device_batch_size=64)
        return np.asarray(make_source(config, make_mesh(config, jax.devices()[:1])).next().inputs)

    first = tokens(0)
    assert first.shape == (64, 16)
    assert set(np.unique(first)) == set(range(64))
    assert np.array_equal(first, tokens(0))
    assert not np.array_equal(first, tokens(1))
