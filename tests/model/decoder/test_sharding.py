"""Meshes and placements: valid ones, and messages for the others."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import pytest
from jax.sharding import PartitionSpec

from configs.load import ConfigError
from configs.model_checks import mesh_shape
from configs.schema import TrainConfig
from model.decoder.params import flatten
from model.decoder.sharding import make_mesh
from model.train.api import make_api
from model.train.data_source import make_source
from model.train.step import declare_state, init_state, lower_step, make_program
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


@pytest.mark.parametrize(
    ("asked", "shape"),
    [((1, -1, 1), (1, 8, 1)), ((2, -1, 2), (2, 2, 2)), ((-1, 4, 1), (2, 4, 1)), ((1, 8, 1), (1, 8, 1))],
)
def test_minus_one_takes_all_remaining_devices(
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
def test_a_mesh_that_does_not_use_all_devices_is_refused(fsdp: int, mini_config: MiniConfig, wording: Wording) -> None:
    with pytest.raises(ConfigError, match=rf"ici_fsdp_parallelism={fsdp}.* {fsdp} devices, .* 8") as error:
        make_mesh(mini_config(ici_fsdp_parallelism=fsdp))
    wording("errors", error.value)


class Chip(NamedTuple):
    """The position of a TPU in a slice."""

    id: int
    coords: tuple[int, int, int]
    platform: str = "tpu"
    device_kind: str = "TPU v6 lite"
    process_index: int = 0
    core_on_chip: int = 0


def test_a_mesh_of_three_axes_lies_on_a_slice_of_two(mini_config: MiniConfig) -> None:
    chips = [Chip(8 * x + y, (x, y, 0)) for x in range(4) for y in range(8)]
    config = mini_config("12_pipeline", base_num_decoder_layers=16, per_device_batch_size=4)
    mesh = make_mesh(config, cast(Any, chips))
    assert (mesh.shape["stage"], mesh.shape["fsdp"], mesh.shape["tensor"]) == (4, 4, 2)
    assert sorted(cast(Chip, chip).id for chip in mesh.devices.flat) == list(range(32))
    pairs = mesh.devices.reshape(16, 2)  # axes that split a matrix: neighbours
    assert all(sum(abs(x - y) for x, y in zip(a.coords, b.coords, strict=True)) == 1 for a, b in pairs)


def test_an_indivisible_model_names_every_key(mini_config: MiniConfig) -> None:
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
    api = make_api(config)
    setup = declare_state(config, api, mesh)
    state = init_state(setup)
    placed = {path: leaf.sharding for path, leaf in flatten(state).items()}
    kernel = "params/decoder/layers/mlp/wi_0/kernel"
    assert placed[f"params/{kernel}"].spec == PartitionSpec("fsdp", "stage", "tensor")
    assert placed[f"opt_state/0/mu/{kernel}"].spec == PartitionSpec("fsdp", "stage", "tensor")
    batch = make_source(config, mesh).next()
    assert batch.inputs.shape == (16, 16)
    assert batch.inputs.sharding.shard_shape(batch.inputs.shape) == (4, 16)
    program = make_program(setup, lower_step(setup))
    trained, metrics = program.run(state, batch)
    for path, leaf in flatten(trained).items():
        assert leaf.sharding.is_equivalent_to(placed[path], leaf.ndim), path
    assert 3.5 < float(jax.device_get(metrics["loss"])) < 5.5  # ln 64 = 4.16, and logits of variance 1


@pytest.mark.parametrize("shardy", [True, False])
def test_no_activation_is_replicated_to_be_split_anew(
    shardy: bool, mini_config: MiniConfig, capfd: pytest.CaptureFixture[str]
) -> None:
    """A mesh that splits the table of the embedding by vocabulary and by width."""
    config = mini_config(shardy=shardy, ici_fsdp_parallelism=4, ici_tensor_parallelism=2)
    setup = declare_state(config, make_api(config), make_mesh(config))
    make_program(setup, lower_step(setup))
    assert "rematerialization" not in capfd.readouterr().err
