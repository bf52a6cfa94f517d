"""Meshes and placements: what fits, and what is said when it does not."""

from collections.abc import Callable

import jax
import pytest
from jax.sharding import PartitionSpec

from configs.load import ConfigError
from configs.model_checks import mesh_shape
from configs.schema import TrainConfig
from model.data import make_source
from model.dialect import make_dialect
from model.params import flatten
from model.sharding import make_mesh
from model.step import compile_step, declare_state, init_state

type MiniConfig = Callable[..., TrainConfig]


@pytest.mark.parametrize(
    ("asked", "shape"),
    [((1, -1, 1), (1, 8, 1)), ((2, -1, 2), (2, 2, 2)), ((-1, 4, 1), (2, 4, 1)), ((1, 8, 1), (1, 8, 1))],
)
def test_minus_one_takes_all_that_are_left(
    asked: tuple[int, int, int], shape: tuple[int, int, int], mini_config: MiniConfig
) -> None:
    data, fsdp, tensor = asked
    config = mini_config(ici_data_parallelism=data, ici_fsdp_parallelism=fsdp, ici_tensor_parallelism=tensor)
    assert mesh_shape(config, 8) == dict(zip(("data", "fsdp", "tensor"), shape, strict=True)) | {
        "stage": 1,
        "context": 1,
        "expert": 1,
    }


@pytest.mark.parametrize("fsdp", [3, 16])
def test_a_mesh_that_is_not_all_devices_is_refused(fsdp: int, mini_config: MiniConfig) -> None:
    with pytest.raises(ConfigError, match=rf"ici_fsdp_parallelism={fsdp}.*number of devices, 8"):
        make_mesh(mini_config(ici_fsdp_parallelism=fsdp))


def test_a_model_that_cannot_be_split_names_every_key(mini_config: MiniConfig) -> None:
    config = mini_config(base_num_query_heads=3, base_num_kv_heads=3, vocab_size=65, ici_tensor_parallelism=2)
    with pytest.raises(ConfigError) as error:
        make_mesh(config)
    assert [problem.split("=")[0] for problem in error.value.problems] == [
        "base_num_query_heads",
        "base_num_kv_heads",
        "vocab_size",
    ]


def test_parameters_moments_and_batch_are_split(mini_config: MiniConfig) -> None:
    config = mini_config(ici_data_parallelism=2, ici_fsdp_parallelism=2, ici_tensor_parallelism=2)
    mesh = make_mesh(config)
    dialect = make_dialect(config)
    declared = declare_state(config, dialect, mesh)
    state = init_state(config, dialect, declared, mesh)
    placed = {path: leaf.sharding for path, leaf in flatten(state).items()}
    kernel = "params/decoder/layers/mlp/wi_0/kernel"
    assert placed[f"params/{kernel}"].spec == PartitionSpec("fsdp", "stage", "tensor")
    assert placed[f"opt_state/0/mu/{kernel}"].spec == PartitionSpec("fsdp", "stage", "tensor")
    batch = make_source(config, mesh).next()
    assert batch.inputs.shape == (16, 16)
    assert batch.inputs.sharding.shard_shape(batch.inputs.shape) == (4, 16)
    program = compile_step(config, dialect, declared, mesh)
    trained, metrics = program.run(state, batch)
    for path, leaf in flatten(trained).items():
        assert leaf.sharding.is_equivalent_to(placed[path], leaf.ndim), path
    assert 3.5 < float(jax.device_get(metrics["loss"])) < 5.5  # ln 64 = 4.16, and logits of variance 1
