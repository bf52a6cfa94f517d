"""The three floors: Linen and NNX are the same program, give the same bits, and read each other's checkpoints."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from etils import epath

from configs.schema import TrainConfig
from model.compile_record import strip_stablehlo
from model.decoder.sharding import make_mesh
from model.train import checkpoint
from model.train.api import Api, make_api, name_arrays
from model.train.batch import Batch
from model.train.cross_restore import translate_state
from model.train.data_source import make_source
from model.train.step import CompiledStep, Setup, declare_state, init_state, lower_step, make_program

pytestmark = pytest.mark.flows

SCAN, LOOP = {"scan_layers": True}, {"scan_layers": False}
F32, BF16 = {"dtype": "float32"}, {"dtype": "bfloat16"}
MOE = {"num_experts": 4, "base_moe_mlp_dim": 32}
MLA = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}
# one setting of every case whose first weights, tree or sharding differ from the others here
# the first is trained at every change, the others by the long tests and by hand
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("01_base", 8, BF16 | SCAN),
]
OTHER_CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("06_moe", 1, F32 | MOE),
    ("05_grad_accum", 8, {"per_device_batch_size": 1, "dropout_rate": 0.1}),
    ("12_pipeline", 8, F32 | {"base_num_decoder_layers": 8}),
    ("07_mla", 1, BF16 | MLA | MOE | {"shared_experts": 1, "first_num_dense_layers": 1}),
    ("16_f32_exact", 8, LOOP | {"base_num_kv_heads": 1}),
]
CASES_BY_HAND: list[tuple[str, int, dict[str, Any]]] = [
    ("03_dropout", 1, F32 | LOOP),
    ("04_int8", 1, SCAN),
    ("11_optimizer_offload_true", 1, BF16),
]
# one program and equal weights give equal bits: these cases are lowered and not trained
OTHER_SETTINGS: list[tuple[str, int, dict[str, Any]]] = [
    ("01_base", 1, F32 | SCAN),
    ("01_base", 1, BF16 | LOOP),
    ("01_base", 8, F32 | LOOP),
    ("02_remat", 1, BF16),
    ("03_dropout", 1, BF16 | SCAN),
    ("03_dropout", 8, F32 | SCAN),
    ("03_dropout", 8, BF16 | LOOP),
    ("08_packing", 8, F32 | {"vocab_size": 272, "per_device_batch_size": 1}),
    ("10_shardy_false", 8, BF16),
    ("12_pipeline", 8, BF16 | {"base_num_decoder_layers": 16, "dropout_rate": 0.1, "num_layers_per_pipeline_stage": 2}),
    ("15_flash_attention", 8, F32 | {"base_num_kv_heads": 1}),
    ("16_f32_exact", 1, SCAN),
]
# of the case 01_base, on eight devices; some combined, as a program is equal only if all of its parts are
QUICK_CHANGES: list[dict[str, Any]] = [
    {"remat_policy": "none", "optimizer_memory_host_offload": True, "ici_context_parallelism": 4},
    {"quantization": "int8", "scan_layers": False, "gradient_accumulation_steps": 2, "shardy": False},
    MOE | {"num_experts_per_tok": 2, "ici_expert_parallelism": 4, "ici_fsdp_parallelism": 2},
    MLA
    | {"attention_type": "mla", "q_lora_rank": 0, "ici_tensor_parallelism": 2, "ici_data_parallelism": 2}
    | {"ici_fsdp_parallelism": 2, "dropout_rate": 0.1},
]
OTHER_CHANGES: list[dict[str, Any]] = [
    {"remat_policy": "minimal"},
    {"remat_policy": "save_dot_except_mlp", "scan_layers": False},
    {"remat_policy": "qkv_proj_offloaded"},
    MOE | {"num_experts_per_tok": 2, "capacity_factor": 1.25, "shared_experts": 1, "scan_layers": False},
    {"param_scan_axis": 0},
    {"weight_dtype": "bfloat16"},
    {"gradient_clipping_threshold": 0.0, "warmup_steps_fraction": 0.0},
]
PARAMS = [
    *CASES,
    *(pytest.param(case, marks=pytest.mark.long) for case in OTHER_CASES),
    *(pytest.param(case, marks=[pytest.mark.long, pytest.mark.by_hand]) for case in CASES_BY_HAND),
]
STEPS, MIDDLE = 4, 2


@dataclass(frozen=True)
class Trained:
    """One api's run, with its state half-way as host arrays."""

    config: TrainConfig
    api: Api
    setup: Setup
    program: CompiledStep
    batch: Batch
    first: dict[str, Any]
    middle: Any
    final: dict[str, Any]
    metrics: list[dict[str, np.ndarray]]


type MiniConfig = Callable[..., TrainConfig]


def bits(arrays: dict[str, Any]) -> dict[str, bytes]:
    """Every array as its bytes."""
    return {path: np.asarray(array).tobytes() for path, array in arrays.items()}


def train(config: TrainConfig, devices: int) -> Trained:
    mesh = make_mesh(config, jax.devices()[:devices])
    api = make_api(config)
    setup = declare_state(config, api, mesh)
    program = make_program(setup, lower_step(setup))
    batch = make_source(config, mesh).next()
    state = init_state(setup)
    first, middle, metrics = jax.device_get(name_arrays(api, state)), None, []
    for step in range(STEPS):
        if step == MIDDLE:
            middle = jax.tree.map(np.array, state)  # the next step consumes the device's copy
        state, of_step = program.run(state, batch)
        metrics.append(jax.device_get(of_step))
    assert middle is not None
    final = jax.device_get(name_arrays(api, state))
    return Trained(config, api, setup, program, batch, first, middle, final, metrics)


def name_case(case: tuple[str, int, dict[str, Any]]) -> str:
    name, devices, changes = case
    return "-".join([name, str(devices), *(f"{key}={value}" for key, value in changes.items())])


@pytest.fixture(scope="module", params=PARAMS, ids=name_case)
def pair(request: pytest.FixtureRequest, mini_config: MiniConfig) -> tuple[Trained, Trained]:
    case, devices, changes = request.param
    changes = {"per_device_batch_size": 8 // devices} | changes
    configs = [mini_config(case, pure_nnx=pure_nnx, **changes) for pure_nnx in (False, True)]
    linen, nnx = (
        train(config, devices) for config in configs
    )  # the second API reuses the first one's compiled program
    return linen, nnx


def test_same_program(pair: tuple[Trained, Trained]) -> None:
    linen, nnx = pair
    assert linen.program.stablehlo_sha256 == nnx.program.stablehlo_sha256
    assert linen.program.hlo_sha256 == nnx.program.hlo_sha256


def test_same_bits(pair: tuple[Trained, Trained]) -> None:
    linen, nnx = pair
    assert bits(linen.first) == bits(nnx.first)
    for step, (ours, theirs) in enumerate(zip(linen.metrics, nnx.metrics, strict=True)):
        for name in ours:
            assert ours[name].tobytes() == theirs[name].tobytes(), (step, name, ours[name], theirs[name])
    assert bits(linen.final) == bits(nnx.final)
    same = [path for path in linen.first if bits(linen.first)[path] == bits(linen.final)[path]]
    assert same == []


def test_same_checkpoint(pair: tuple[Trained, Trained], tmp_path: Path) -> None:
    """Each API writes its own tree; the other reads it by its names and trains on."""
    for writer, reader in (pair, pair[::-1]):
        directory = epath.Path(tmp_path / writer.api.name)
        manager = checkpoint.make_manager(writer.config, directory)
        state = jax.tree.map(lambda leaf, kind: jax.device_put(leaf, kind.sharding), writer.middle, writer.setup.arrays)
        assert checkpoint.save(writer.config, manager, MIDDLE - 1, writer.api.to_tree(state), force=True)
        manager.wait_until_finished()
        abstract = writer.api.to_tree(writer.setup.arrays)
        there = checkpoint.tree_difference(manager, MIDDLE - 1, reader.api.to_tree(reader.setup.arrays))
        assert there is not None  # each tree is in the API's own form
        restored = writer.api.from_tree(checkpoint.restore(manager, MIDDLE - 1, abstract))
        manager.close()
        state = translate_state(writer.api, restored, reader.setup)
        assert bits(name_arrays(reader.api, state)) == bits(name_arrays(writer.api, writer.middle))
        for step in range(MIDDLE, STEPS):
            state, metrics = reader.program.run(state, reader.batch)
            assert np.asarray(metrics["loss"]).tobytes() == writer.metrics[step]["loss"].tobytes()
        assert bits(name_arrays(reader.api, state)) == bits(writer.final)


@pytest.mark.long
@pytest.mark.parametrize("setting", OTHER_SETTINGS, ids=name_case)
def test_same_lowered_program_in_other_settings_of_a_case(
    setting: tuple[str, int, dict[str, Any]], mini_config: MiniConfig
) -> None:
    case, devices, changes = setting
    changes = {"per_device_batch_size": 8 // devices} | changes
    linen, nnx = (lower(mini_config(case, pure_nnx=pure_nnx, **changes), devices) for pure_nnx in (False, True))
    assert linen == nnx


def lower(config: TrainConfig, devices: int = 8) -> str:
    mesh = make_mesh(config, jax.devices()[:devices])
    api = make_api(config)
    return strip_stablehlo(lower_step(declare_state(config, api, mesh)).as_text())


@pytest.mark.parametrize(
    "changes",
    [*QUICK_CHANGES, *(pytest.param(changes, marks=pytest.mark.long) for changes in OTHER_CHANGES)],
    ids=lambda changes: ",".join(f"{key}={value}" for key, value in changes.items()),
)
def test_same_lowered_program_for_other_settings(changes: dict[str, Any], mini_config: MiniConfig) -> None:
    linen, nnx = (lower(mini_config(pure_nnx=pure_nnx, **changes)) for pure_nnx in (False, True))
    assert linen == nnx


def test_one_device_and_eight_start_from_the_same_weights_and_tokens(mini_config: MiniConfig) -> None:
    params, tokens = [], []
    for devices in (1, 8):
        config = mini_config(per_device_batch_size=8 // devices)
        mesh = make_mesh(config, jax.devices()[:devices])
        api = make_api(config)
        state = init_state(declare_state(config, api, mesh))
        params.append(jax.device_get(state.params))
        tokens.append(np.asarray(make_source(config, mesh).next().inputs))
    for one, eight in zip(*map(jax.tree.leaves, params), strict=True):
        assert np.array_equal(one, eight)
    assert np.array_equal(tokens[0], tokens[1])
