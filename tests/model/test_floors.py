"""The three floors: Linen and NNX are the same program, give the same bits, and read each other's checkpoints."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from etils import epath

from configs.schema import TrainConfig
from model import checkpoint
from model.core import cross_entropy
from model.data import synthetic_batch
from model.implementation import make_implementation
from model.sharding import make_mesh
from model.step import (
    Declaration,
    Program,
    TrainState,
    compile_step,
    declare_state,
    init_state,
    lower_step,
    strip_stablehlo,
)

CASES = [
    ("01_base", "float32"),
    ("01_base", "bfloat16"),
    ("03_dropout", "float32"),
    ("03_dropout", "bfloat16"),
    ("16_f32_exact", "float32"),
]
STEPS, MIDDLE = 4, 2


@dataclass(frozen=True)
class Trained:
    """One dialect's run, with its state half-way as host arrays."""

    config: TrainConfig
    declared: Declaration
    program: Program
    batch: jax.Array
    first_params: Any
    middle: TrainState
    final: TrainState
    metrics: list[dict[str, np.ndarray]]


type MiniConfig = Callable[..., TrainConfig]


def bits(tree: Any) -> list[bytes]:
    """Every leaf as the bytes it is made of."""
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def train(config: TrainConfig, devices: int) -> Trained:
    mesh = make_mesh(config, jax.devices()[:devices])
    implementation = make_implementation(config)
    declared = declare_state(config, implementation, mesh)
    program = compile_step(config, implementation, declared, mesh)
    batch = synthetic_batch(config, mesh)
    state = init_state(config, declared)
    first_params, middle, metrics = jax.device_get(state.params), None, []
    for step in range(STEPS):
        if step == MIDDLE:
            middle = jax.tree.map(np.array, state)  # the next step consumes the device's copy
        state, of_step = program.run(state, batch)
        metrics.append(jax.device_get(of_step))
    assert middle is not None
    return Trained(config, declared, program, batch, first_params, middle, jax.device_get(state), metrics)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def pair(request: pytest.FixtureRequest, devices: int, scan: bool, mini_config: MiniConfig) -> tuple[Trained, Trained]:
    case, dtype = request.param
    changes = {"dtype": dtype, "scan_layers": scan, "per_device_batch_size": 8 // devices}
    configs = [mini_config(case, pure_nnx=pure_nnx, **changes) for pure_nnx in (False, True)]
    with ThreadPoolExecutor(max_workers=2) as pool:  # compiling is what takes the time, and one core each
        linen, nnx = pool.map(train, configs, [devices, devices])
    return linen, nnx


@pytest.fixture(scope="module", params=[1, 8], ids=["1-device", "8-devices"])
def devices(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module", params=[True, False], ids=["scanned", "unrolled"])
def scan(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_same_program(pair: tuple[Trained, Trained]) -> None:
    linen, nnx = pair
    assert linen.program.stablehlo_sha256 == nnx.program.stablehlo_sha256
    assert linen.program.hlo_sha256 == nnx.program.hlo_sha256


def test_same_bits(pair: tuple[Trained, Trained]) -> None:
    linen, nnx = pair
    assert jax.tree.structure(linen.final) == jax.tree.structure(nnx.final)
    assert bits(linen.first_params) == bits(nnx.first_params)
    for step, (ours, theirs) in enumerate(zip(linen.metrics, nnx.metrics, strict=True)):
        for name in ours:
            assert ours[name].tobytes() == theirs[name].tobytes(), (step, name, ours[name], theirs[name])
    assert bits(linen.final) == bits(nnx.final)
    assert bits(linen.first_params) != bits(linen.final.params)


def test_same_checkpoint(pair: tuple[Trained, Trained], tmp_path: Path) -> None:
    for writer, reader in (pair, pair[::-1]):
        directory = epath.Path(tmp_path / ("nnx" if writer.config.pure_nnx else "linen"))
        manager = checkpoint.make_manager(writer.config, directory)
        state = jax.tree.map(
            lambda leaf, kind: jax.device_put(leaf, kind.sharding), writer.middle, writer.declared.state
        )
        assert checkpoint.save(writer.config, manager, MIDDLE - 1, state, force=True)
        manager.wait_until_finished()
        restored = checkpoint.restore(manager, MIDDLE - 1, reader.declared.state)
        manager.close()
        assert bits(restored) == bits(writer.middle)
        for step in range(MIDDLE, STEPS):
            restored, metrics = reader.program.run(restored, reader.batch)
            assert np.asarray(metrics["loss"]).tobytes() == writer.metrics[step]["loss"].tobytes()
        assert bits(restored) == bits(writer.final)


@pytest.mark.parametrize(("dtype", "scan_layers"), [("float32", False), ("bfloat16", True)])
def test_same_gradients(dtype: str, scan_layers: bool, mini_config: MiniConfig) -> None:
    gradients = []
    for pure_nnx in (False, True):
        config = mini_config("03_dropout", dtype=dtype, scan_layers=scan_layers, pure_nnx=pure_nnx)
        mesh = make_mesh(config, jax.devices()[:1])
        implementation = make_implementation(config)
        state = init_state(config, declare_state(config, implementation, mesh))
        tokens_BM = synthetic_batch(config, mesh)

        def loss(params: Any, implementation: Any = implementation, tokens_BM: jax.Array = tokens_BM) -> jax.Array:
            logits_BLV = implementation.apply(params, tokens_BM[:, :-1], jax.random.key(3))
            return cross_entropy(logits_BLV, tokens_BM[:, 1:])

        gradients.append(jax.jit(jax.grad(loss))(state.params))
    assert all(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(gradients[0]))
    assert bits(gradients[0]) == bits(gradients[1])


@pytest.mark.parametrize(
    "changes",
    [
        {"remat_policy": "none"},
        {"remat_policy": "minimal"},
        {"remat_policy": "minimal", "scan_layers": False},
        {"param_scan_axis": 0},
        {"weight_dtype": "bfloat16"},
        {"gradient_clipping_threshold": 0.0, "warmup_steps_fraction": 0.0},
        {"ici_data_parallelism": 2, "ici_fsdp_parallelism": 2, "ici_tensor_parallelism": 2, "dropout_rate": 0.1},
    ],
    ids=lambda changes: ",".join(f"{key}={value}" for key, value in changes.items()),
)
def test_same_lowered_program_for_other_settings(changes: dict[str, Any], mini_config: MiniConfig) -> None:
    texts = []
    for pure_nnx in (False, True):
        config = mini_config(pure_nnx=pure_nnx, **changes)
        mesh = make_mesh(config)
        implementation = make_implementation(config)
        lowered = lower_step(config, implementation, declare_state(config, implementation, mesh), mesh)
        texts.append(strip_stablehlo(lowered.as_text()))
    assert texts[0] == texts[1]


def test_one_device_and_eight_start_from_the_same_weights_and_tokens(mini_config: MiniConfig) -> None:
    params, tokens = [], []
    for devices in (1, 8):
        config = mini_config(per_device_batch_size=8 // devices)
        mesh = make_mesh(config, jax.devices()[:devices])
        state = init_state(config, declare_state(config, make_implementation(config), mesh))
        params.append(jax.tree.leaves(jax.device_get(state.params)))
        tokens.append(np.asarray(synthetic_batch(config, mesh)))
    for one, eight in zip(*params, strict=True):
        # the same random bits; the normal distribution's inverse may round differently when compiled for a shard
        np.testing.assert_allclose(one, eight, rtol=1e-5, atol=1e-7)
    assert np.array_equal(tokens[0], tokens[1])
