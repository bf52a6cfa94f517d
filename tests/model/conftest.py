"""Eight virtual CPU devices, a decoder that compiles in a second, and numerics stricter than in production."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from configs.schema import TrainConfig
from model.train.loop import train
from model.train.stop import StopSignal
from tests.small_trainer import small_arguments, small_config, start_backend

start_backend(devices=8)
# silent broadcasting between ranks is an error
jax.config.update("jax_numpy_rank_promotion", "raise")

# one device and eight get the same number of sequences: tests set `per_device_batch_size` themselves
MINI = {
    "base_emb_dim": 16,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "head_dim": 8,
    "base_mlp_dim": 32,
    "base_num_decoder_layers": 2,
    "vocab_size": 64,
    "max_target_length": 16,
    "per_device_batch_size": 2,
    "steps": 6,
    "learning_rate": 0.01,
    "log_config": False,
    "run_name": "run",
}


type MiniConfig = Callable[..., TrainConfig]
type MiniArguments = Callable[..., list[str]]


@pytest.fixture(scope="session")
def mini_config() -> MiniConfig:
    """A case of ours at a size for tests, with changes."""

    def make(case: str = "01_base", **changes: Any) -> TrainConfig:
        return small_config(case, MINI | changes)

    return make


@pytest.fixture(scope="session")
def mini_arguments() -> MiniArguments:
    """Return the arguments of `model.train` for the same."""

    def make(case: str = "01_base", **changes: Any) -> list[str]:
        return small_arguments(case, MINI | changes)

    return make


@pytest.fixture(scope="session")
def finished_run(
    mini_config: MiniConfig, tmp_path_factory: pytest.TempPathFactory, shared: Callable[[str, Callable[[], str]], str]
) -> Path:
    """The folder of a finished Linen run of six steps; trained once for all processes, and never changed."""

    def make() -> str:
        folder = tmp_path_factory.mktemp("runs")
        assert train(mini_config(base_output_directory=folder), StopSignal()) == 0
        return str(folder / "run")

    return Path(shared("finished-run", make))


@pytest.fixture
def seeds() -> Path:
    """The folder of the founding documents."""
    folder = os.environ.get("MAXVIEW_SEEDS")
    if not folder:
        pytest.skip("MAXVIEW_SEEDS is not set: the founding documents are not at hand")
    return Path(folder)
