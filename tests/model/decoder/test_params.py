"""First weights: the seeds' tree and count, MaxText's distributions, the same draws in every layout."""

from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractMesh

from configs.load import CONFIG_ROOT, load_train_config
from configs.schema import TrainConfig
from model.decoder import decoder_linen, decoder_nnx
from model.decoder.params import count_params, draw_params, flatten
from model.decoder.sharding import MESH_AXES, make_mesh
from model.train import report
from model.train.api import make_api
from model.train.step import declare_state, fill_on_host, init_state, parameter_shardings

pytestmark = pytest.mark.flows

type MiniConfig = Callable[..., TrainConfig]


def seed_config(**changes: object) -> TrainConfig:
    return load_train_config(
        CONFIG_ROOT / "models" / "seed-1b.yml", [f"{key}={value}" for key, value in changes.items()]
    )


def first_weights(config: TrainConfig) -> dict[str, np.ndarray]:
    mesh, api = make_mesh(config, jax.devices()[:1]), make_api(config)
    state = init_state(declare_state(config, api, mesh))
    return flatten(jax.device_get(state.params))


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Return the programs that XLA compiles from now on."""
    events: list[str] = []

    def listen(event: str, seconds: float, **_: object) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("pure_nnx", [False, True])
def test_a_first_state_equals_its_apis_own_and_nothing_is_compiled(
    pure_nnx: bool, mini_config: MiniConfig, compiled: list[str]
) -> None:
    config = mini_config(pure_nnx=pure_nnx, base_mlp_dim=48 if pure_nnx else 40)  # shapes that no other test compiles
    mesh, api = make_mesh(config), make_api(config)
    setup = declare_state(config, api, mesh)
    state = init_state(setup)
    assert not compiled
    params = draw_params(config.init_weights_seed, setup.parameters, parameter_shardings(setup.parameters, mesh))
    native = api.first_state(params)  # TrainState.create, or nnx.Optimizer, unchanged
    assert compiled
    assert jax.tree.structure(state) == jax.tree.structure(native)
    for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(native), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


def test_a_state_with_varying_first_values_is_created_by_its_api() -> None:
    def first(params: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return params | {"average": params["kernel"] * 0.5, "count": jnp.zeros((3,))}

    state = fill_on_host(first, {"kernel": jnp.arange(4.0)})
    assert state["average"].tolist() == [0.0, 0.5, 1.0, 1.5]
    assert state["count"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("pure_nnx", [False, True])
@pytest.mark.parametrize("scan_layers", [False, True])
def test_seed_model_has_the_seeds_parameter_count(pure_nnx: bool, scan_layers: bool) -> None:
    declared = make_api(seed_config(pure_nnx=pure_nnx, scan_layers=scan_layers)).declare()
    # 2 embeddings of 32000·2048; 16 layers of 4·2048² + 3·2048·7168 + 2·2048; one norm of 2048
    assert count_params(declared) == 2 * 32000 * 2048 + 16 * (4 * 2048**2 + 3 * 2048 * 7168 + 2 * 2048) + 2048
    assert count_params(declared) == 1_104_218_112


@pytest.mark.parametrize("pure_nnx", [False, True])
def test_deepseek2_has_its_published_parameter_count(pure_nnx: bool) -> None:
    config = load_train_config(CONFIG_ROOT / "models" / "deepseek2-16b.yml", [f"pure_nnx={pure_nnx}"])
    E, H = 2048, 16
    attention = E * H * 192 + E * (512 + 64) + 512 + 512 * H * 256 + H * 128 * E
    mixture = E * 64 + 64 * 3 * E * 1408 + 3 * E * 2 * 1408
    whole = 2 * 102400 * E + 27 * (attention + 2 * E) + 3 * E * 10944 + 26 * mixture + E
    assert count_params(make_api(config).declare()) == whole == 15_706_484_224


@pytest.mark.parametrize("pure_nnx", [False, True])
def test_the_parameter_dump_equals_the_seeds(
    pure_nnx: bool, seeds: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = make_api(seed_config(pure_nnx=pure_nnx)).declare()
    with caplog.at_level("INFO", logger="absl"):
        report.log_parameters(
            declared, AbstractMesh(tuple(32 if axis == "fsdp" else 1 for axis in MESH_AXES), MESH_AXES)
        )
    ours = [record.getMessage() for record in caplog.records]
    log = next(seeds.glob("000_*.txt")).read_text(encoding="utf-8").splitlines()
    blocks = [
        "\n".join([" " + line.split("] ", 1)[1].lstrip(), *log[number + 1 : number + 4]])
        for number, line in enumerate(log)
        if "] " in line and line.split("] ", 1)[1].lstrip().startswith("params/params/")
    ]
    assert len(blocks) == 12
    assert ours == blocks


def test_both_apis_declare_the_same_tree(mini_config: MiniConfig) -> None:
    for scan_layers in (True, False):
        linen, nnx = (make_api(mini_config(pure_nnx=nnx, scan_layers=scan_layers)).declare() for nnx in (False, True))
        assert linen == nnx


@pytest.mark.parametrize("param_scan_axis", [0, 1])
def test_scanned_and_unrolled_layers_have_equal_first_weights(param_scan_axis: int, mini_config: MiniConfig) -> None:
    params = []
    for scan_layers in (True, False):
        config = mini_config(scan_layers=scan_layers, param_scan_axis=param_scan_axis, base_num_decoder_layers=3)
        params.append(first_weights(config))
    scanned, unrolled = params
    for path, value in scanned.items():
        for layer in range(3):
            one = np.take(value, layer, param_scan_axis) if "/layers/" in path else value
            other = unrolled[path.replace("/layers/", f"/layers_{layer}/")]
            assert np.array_equal(one, other), path
    kernel = scanned["params/decoder/layers/mlp/wi_0/kernel"]
    assert not np.array_equal(np.take(kernel, 0, param_scan_axis), np.take(kernel, 1, param_scan_axis))


def test_first_weights_have_maxtexts_standard_deviations(mini_config: MiniConfig) -> None:
    config = mini_config(base_emb_dim=64, head_dim=16, base_mlp_dim=96, vocab_size=256)
    params = first_weights(config)
    layers = "params/decoder/layers"
    expected = {
        "params/token_embedder/embedding": 1.0,
        f"{layers}/self_attention/query/kernel": (64 * 16) ** -0.5,
        f"{layers}/self_attention/key/kernel": 64**-0.5,
        f"{layers}/self_attention/value/kernel": 64**-0.5,
        f"{layers}/self_attention/out/kernel": (2 * 16) ** -0.5,
        f"{layers}/mlp/wi_0/kernel": 64**-0.5,
        f"{layers}/mlp/wi_1/kernel": 64**-0.5,
        f"{layers}/mlp/wo/kernel": 96**-0.5,
        "params/decoder/logits_dense/kernel": 64**-0.5,
    }
    for path, deviation in expected.items():
        values = params.pop(path)
        # the standard deviation of n draws is known to 1 / √(2n); five of those
        np.testing.assert_allclose(values.std(), deviation, rtol=5 / (2 * values.size) ** 0.5, err_msg=path)
        cut = np.abs(values).max() / deviation
        assert (cut < 2 / 0.8796) == ("mlp" in path or "logits" in path), path
    assert all(np.all(scale == 1.0) for scale in params.values())
    assert len(params) == 3


def test_init_of_either_api_uses_its_own_keys(mini_config: MiniConfig) -> None:
    config = mini_config(base_mlp_dim=256)
    tokens_BL = np.zeros((1, config.max_target_length), np.int32)
    init = jax.jit(decoder_linen.Decoder(config).init)
    linen = init(jax.random.key(0), tokens_BL, tokens_BL, None, None)["params"]["decoder"]["layers"]["mlp"]
    nnx_layers = decoder_nnx.Decoder(config, rngs=nnx.Rngs(params=0)).decoder.layers
    for kernel in (linen["wi_0"]["kernel"].value, nnx_layers.mlp.wi_0.kernel[...]):
        assert kernel.shape == (16, 2, 256)
        # 8,192 draws: five standard errors of their standard deviation
        np.testing.assert_allclose(np.std(kernel), 16**-0.5, rtol=5 / (2 * kernel.size) ** 0.5)
        assert not np.array_equal(kernel[:, 0], kernel[:, 1])
