"""The effect of each case on the base config, against known results."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from configs.load import ConfigError
from configs.schema import TrainConfig
from model.decoder.contraction import contract, int8, plain_product
from model.decoder.sharding import make_mesh
from model.train.api import make_api
from model.train.data_source import make_source
from model.train.loop import train
from model.train.step import HOST, declare_state, init_state, lower_step
from model.train.stop import StopSignal
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


def lower(config: TrainConfig, devices: int = 1) -> str:
    mesh, api = make_mesh(config, jax.devices()[:devices]), make_api(config)
    return str(lower_step(declare_state(config, api, mesh)).as_text())


def first_gradients(config: TrainConfig) -> dict[str, Any]:
    """The losses and the gradient norm of a step, before its update."""
    mesh, api = make_mesh(config, jax.devices()[:1]), make_api(config)
    state = init_state(declare_state(config, api, mesh))
    batch = make_source(config, mesh).next()
    with jax.set_mesh(mesh):
        return jax.device_get(jax.jit(api.train_step)(state, batch)[1])


def test_saved_activations_are_not_recomputed(mini_config: MiniConfig) -> None:
    """Layers have 7 matmuls with kernels and 2 of attention; only wo's result is never needed again."""
    dots = {
        policy: lower(mini_config(remat_policy=policy)).count("stablehlo.dot_general")
        for policy in ("none", "minimal", "save_dot_except_mlp", "full")
    }
    assert dots["minimal"] - dots["none"] == 2  # attention's own products
    assert dots["save_dot_except_mlp"] - dots["minimal"] == 2  # wi_0 and wi_1
    assert dots["full"] - dots["save_dot_except_mlp"] == 4  # query, key, value and out


def test_int8_applies_to_all_three_products_but_not_to_the_head(mini_config: MiniConfig) -> None:
    text = lower(mini_config("04_int8", remat_policy="none", scan_layers=False))
    kinds = re.findall(r"stablehlo\.dot_general.*: \(tensor<[\dx]*x(\w+)>", text)
    assert kinds.count("i8") == 2 * 7 * 3  # layers × kernels × (forward, two backward)
    assert kinds.count("bf16") + kinds.count("f32") == 3 + 2 * 2 * 3  # the head, and attention's products


def test_the_error_of_int8_is_at_most_half_a_step_of_each_operand() -> None:
    x, kernel = (jax.random.normal(jax.random.key(seed), (4, 5, 6)[seed:][:2]) for seed in (0, 1))
    step_x, step_kernel = (jnp.max(jnp.abs(array), axis, keepdims=True) / 127 for array, axis in ((x, 1), (kernel, 0)))
    half = jnp.full_like(x, 0.5) * step_x, jnp.full_like(kernel, 0.5) * step_kernel
    bound = jnp.abs(x) @ half[1] + half[0] @ jnp.abs(kernel) + half[0] @ half[1]
    error = jnp.abs(contract(int8, "LE,EF->LF", x, kernel) - contract(plain_product, "LE,EF->LF", x, kernel))
    assert np.all(error < bound)
    assert np.any(error > bound / 10)


def test_int8_rounds_to_127_steps_on_each_side_like_aqt() -> None:
    """By AQT's formula: scale = largest value / 127.5, rounded to the nearest step, clipped to ±127. The largest values
    of both operands are on the side where int8 has one more step.
    """
    x, kernel = (-np.abs(np.random.default_rng(seed).standard_normal((6, 6))).astype(np.float32) for seed in (0, 1))

    def rounded(array: np.ndarray, axis: int) -> np.ndarray:
        scale = np.abs(array).max(axis, keepdims=True) / np.float32(127.5)
        return np.clip(np.rint(array / scale), -127, 127) * scale

    found = contract(int8, "LE,EF->LF", jnp.asarray(x), jnp.asarray(kernel))
    np.testing.assert_allclose(found, rounded(x, 1) @ rounded(kernel, 0), rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_int8_on_a_mesh_equals_int8_on_one_device(axis: int) -> None:
    """A scale is computed over whole rows and columns, however they are sharded: sums of integers have equal bits."""
    arrays = [jax.random.normal(jax.random.key(seed), (16, 16)) for seed in range(3)]

    def products(x: jax.Array, kernel: jax.Array, of_out: jax.Array) -> tuple[jax.Array, ...]:
        out, backward = jax.vjp(lambda *operands: contract(int8, "LE,EF->LF", *operands), x, kernel)
        return out, *backward(of_out)

    alone = jax.jit(products)(*arrays)
    mesh = Mesh(np.asarray(jax.devices()), ("fsdp",))
    spec = PartitionSpec("fsdp") if axis == 0 else PartitionSpec(None, "fsdp")
    split = [jax.device_put(array, NamedSharding(mesh, spec)) for array in arrays]
    for found, expected in zip(jax.jit(products)(*split), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.long
def test_four_accumulated_batches_equal_one_of_four_times_the_size(mini_config: MiniConfig) -> None:
    parts = first_gradients(mini_config("05_grad_accum", dtype="float32", per_device_batch_size=1))
    whole = first_gradients(mini_config(dtype="float32", per_device_batch_size=4))
    assert parts["total_weights"] == whole["total_weights"] == 4 * 16
    for name in ("loss", "raw_grad_norm", "param_norm"):
        np.testing.assert_allclose(parts[name], whole[name], rtol=1e-5)


def test_unrolled_layers_have_no_loops(mini_config: MiniConfig) -> None:
    """Scanned layers are a loop forward and one backward; the loss has a separate one."""
    loops = [lower(mini_config(case)).count("stablehlo.while") for case in ("01_base", "09_scan_layers_false")]
    assert loops[0] - loops[1] == 2


def test_each_partitioner_gets_shardings_in_its_own_form(mini_config: MiniConfig) -> None:
    words = {True: "sdy.sharding", False: "mhlo.sharding"}
    for shardy, word in words.items():
        text = lower(mini_config(f"10_shardy_{str(shardy).lower()}"), devices=8)
        assert word in text
        assert words[not shardy] not in text


def test_every_product_of_the_exact_case_is_in_float32_at_the_highest_precision(mini_config: MiniConfig) -> None:
    text = lower(mini_config("16_f32_exact"))
    products = re.findall(r"stablehlo\.dot_general.*", text)
    assert products
    assert all("precision = [HIGHEST, HIGHEST]" in product for product in products)
    assert "bf16" not in text


def test_offloaded_moments_are_in_the_hosts_memory(mini_config: MiniConfig) -> None:
    kinds = {}
    for offload in ("true", "false"):
        config = mini_config(f"11_optimizer_offload_{offload}")
        declared = declare_state(config, make_api(config), make_mesh(config))
        leaves = jax.tree.leaves(declared.arrays)
        kinds[offload] = [leaf.sharding.memory_kind == HOST for leaf in leaves].count(True)
    assert kinds == {"true": 2 * 12, "false": 0}


@pytest.mark.long
def test_eval_lines_equal_maxtexts(mini_config: MiniConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of NNX; `test_outputs` evaluates with Linen."""
    config = mini_config("13_eval", base_output_directory=tmp_path, pure_nnx=True, steps=10)
    with caplog.at_level("INFO", logger="absl"):
        assert train(config, StopSignal()) == 0
    lines = [record.getMessage() for record in caplog.records]
    reported = [line for line in lines if " eval " in line]
    assert len(reported) == 2 * 4
    for line, pattern in zip(
        reported,
        [
            r"Starting eval after train step 4$",
            r"Completed eval step: 0, seconds: \d+\.\d{3}$",
            r"Completed eval step: 1, seconds: \d+\.\d{3}$",
            r"Completed eval after train step 4, loss=\d\.\d{3}, total_weights=\d+$",
        ],
        strict=False,
    ):
        assert re.match(pattern, line), line
    # memorising one batch does not help on another: at least ln 64 = 4.16
    assert float(reported[3].split("loss=")[1].split(",")[0]) > 4.1


@pytest.mark.long
def test_a_stopped_and_resumed_run_ends_like_an_uninterrupted_one(
    mini_config: MiniConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="absl"):
        for name, pure_nnx, other in (("linen", False, None), ("nnx", True, epath.Path(tmp_path / "linen"))):
            changes = {"run_name": name, "pure_nnx": pure_nnx, "resume_after_step": 2}
            config = mini_config("14_resume", base_output_directory=tmp_path, **changes)
            assert train(config, StopSignal(), other) == 0
    assert len(re.findall(r"restored after step 2 .* same bits in all 39 arrays", caplog.text)) == 2
    assert json.loads((tmp_path / "nnx" / "program.json").read_text())["cross_restore"]["holds"] is True


def test_a_resume_after_the_end_is_refused(mini_config: MiniConfig, wording: Wording) -> None:
    with pytest.raises(ConfigError, match=r"resume_after_step .*steps - 1") as error:
        mini_config("14_resume", steps=5)
    wording("errors", error.value)
