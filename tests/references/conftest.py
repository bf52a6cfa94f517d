"""One device, a decoder of a few thousand numbers, and what our real step makes of given weights and batches."""

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from configs.installed import trainer_commit
from configs.load import CONFIG_ROOT, load_train_config
from configs.schema import TrainConfig
from tasks.records.card import ReferenceCheck

type Arrays = dict[str, NDArray[Any]]
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

# sizes that differ from each other wherever they may, so that no two axes can be swapped unseen
MINI = {
    "base_emb_dim": 24,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "head_dim": 8,
    "base_mlp_dim": 40,
    "base_moe_mlp_dim": 20,
    "base_num_decoder_layers": 2,
    "vocab_size": 72,
    "max_target_length": 16,
    "per_device_batch_size": 2,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 6,
    "v_head_dim": 14,
    "steps": 10,
    "learning_rate": 0.01,
    "warmup_steps_fraction": 0.0,
    "dtype": "float32",
    "matmul_precision": "highest",
    "enable_checkpointing": False,
    "log_config": False,
    "run_name": "run",
}


def start_backend() -> None:
    """A compiler that does not optimise: each program here runs a few times."""
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    jax.config.update("jax_platforms", "cpu")
    jax.jit(lambda x: x + 1)(0)
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before


start_backend()


@dataclass(frozen=True)
class Found:
    """What one side makes of a batch, and of as many steps as there are batches."""

    loss: float
    logits: NDArray[Any]  # BLV
    gradients: Arrays  # by our names
    steps: list[dict[str, float]]  # the metrics of each
    once: Arrays  # the parameters after the first step, by our names
    params: Arrays  # and after the last one


def mini(case: str = "01_base", **changes: Any) -> TrainConfig:
    """A case at a size for tests, in float32."""
    words = [f"{key}={value}" for key, value in (MINI | changes).items()]
    return load_train_config(CONFIG_ROOT / "cases" / f"{case}.yml", words)


def draw_weights(config: TrainConfig) -> Arrays:
    """Weights by our names: none is 0 or 1, as those of a norm are at first."""
    from model.train.api import make_api

    rng = np.random.default_rng(0)
    weights = {}
    for path, one in sorted(make_api(config).declare().items()):
        is_norm = path.endswith("scale")
        noise = rng.standard_normal(one.shape)
        weights[path.removeprefix("params/")] = (1 + 0.2 * noise if is_norm else 0.25 * noise).astype(np.float32)
    return weights


def make_batches(config: TrainConfig, count: int, *, packed: bool) -> list[Arrays]:
    """Random batches by our names. Packed: texts of uneven lengths, and padding at the end of each sequence."""
    rng = np.random.default_rng(1)
    shape = (config.per_device_batch_size, config.max_target_length)
    made = []
    for _ in range(count):
        tokens = rng.integers(0, config.vocab_size, size=(shape[0], shape[1] + 1), dtype=np.int32)
        segments = np.ones(shape, np.int32)
        positions = np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape).copy()
        if packed:
            for row in range(shape[0]):
                first, second = 5 + 2 * row, 12 + row
                segments[row] = np.repeat([1, 2, 0], [first, second - first, shape[1] - second])
                lengths = (first, second - first, shape[1] - second)
                positions[row] = np.concatenate([np.arange(length) for length in lengths])
        weights = (segments > 0).astype(np.int32)
        made.append({"inputs": tokens[:, :-1] * weights, "targets": tokens[:, 1:] * weights, "positions": positions,
                     "segment_ids": segments, "weights": weights})  # fmt: skip
    return made


class Ours:
    """Our real step, as `model.train` compiles it, for one config."""

    def __init__(self, config: TrainConfig):
        from model.decoder.sharding import make_mesh
        from model.train.api import make_api
        from model.train.step import lower_step, make_program, set_up

        self.config, self.packed = config, config.dataset_type == "grain"
        self.setup = set_up(config, make_api(config), make_mesh(config, jax.devices()[:1]))
        self.program = make_program(self.setup, lower_step(self.setup))
        self.decode = jax.jit(self._decode)

    def _decode(self, state: Any, batch: Any) -> jax.Array:
        from flax import nnx

        inputs = (batch.inputs, batch.positions, batch.segment_ids, None)
        model = nnx.merge(self.setup.api.graphdef, state).model if self.config.pure_nnx else None
        output = model(*inputs) if model else self.setup.api.module.apply(state.params, *inputs)
        with jax.default_matmul_precision(self.config.matmul_precision):
            return jax.numpy.einsum("BLE,EV->BLV", output.x_BLE, output.kernel_EV)

    def batch_of(self, arrays: Arrays) -> Any:
        """A batch of ours; where a sequence is one text, nothing tells texts apart."""
        from model.train.batch import Batch

        return Batch(**(arrays if self.packed else arrays | {"segment_ids": None}))

    def start(self, weights: Arrays) -> Any:
        """The state before the first step, with these weights."""
        from model.train.step import placements

        first = self.setup.api.first({f"params/{path}": np.asarray(value) for path, value in weights.items()})
        return jax.tree.map(jax.device_put, first, placements(self.setup))

    def read_logits(self, weights: Arrays, arrays: Arrays) -> NDArray[Any]:
        """The logits of a batch, nothing dropped."""
        return np.asarray(self.decode(self.start(weights), self.batch_of(arrays)))

    def train(self, weights: Arrays, batches: Sequence[Arrays]) -> Found:
        """Steps from these weights on these batches.

        The first gradient is read off the first moment, which is its share 1 - `adam_b1`, before anything is clipped.
        """
        from model.train.api import name_arrays

        state, logits = self.start(weights), self.read_logits(weights, batches[0])
        once: Arrays = {}
        gradients: Arrays = {}
        steps = []
        for arrays in batches:
            state, metrics = self.program.run(state, self.batch_of(arrays))
            steps.append({name: float(value) for name, value in metrics.items()})
            named = name_arrays(self.setup.api, state)
            if not once:
                once = params_of(named, "params/params/")
                scale = (1 - self.config.adam_b1) * steps[0]["grad_norm"] / steps[0]["raw_grad_norm"]
                moments = params_of(named, "opt_state/0/mu/params/")
                gradients = {name: value / scale for name, value in moments.items()}
        return Found(steps[0]["loss"], logits, gradients, steps, once, params_of(named, "params/params/"))


def params_of(named: dict[str, Any], prefix: str) -> Arrays:
    """The arrays below a prefix, under the names that are left."""
    return {name.removeprefix(prefix): np.asarray(leaf) for name, leaf in named.items() if name.startswith(prefix)}


def load(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"references_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_program(python: str, program: str, *folders: Path) -> None:
    """Run a program of another library in its own Python. Fails with the end of what it printed."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE", "HF_HUB_OFFLINE": "1"}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # MaxText compiles in a quarter of the time
    argv = [python, str(FOLDER / "programs" / program), *map(str, folders)]
    ended = subprocess.run(argv, env=environment, cwd=folders[0], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.fixture(scope="session")
def references() -> SimpleNamespace:
    """What the tests of this folder share."""
    shared = {}
    for module in ("names", "decoders"):
        shared |= {name: value for name, value in vars(load(module)).items() if not name.startswith("_")}
    own = {"mini": mini, "draw_weights": draw_weights, "make_batches": make_batches, "run": run_program}
    return SimpleNamespace(**shared, **own, ours=functools.cache(Ours), fresh=Ours)


@pytest.fixture(scope="session")
def record_check() -> Iterator[Callable[..., None]]:
    """Keeps what was found for `maxview card`: a file in the folder that MAXVIEW_REFERENCES names, if it is set."""
    checks: list[ReferenceCheck] = []

    def record(case: str, reference: str, quantity: str, difference: float, limit: float) -> None:
        checks.append(
            ReferenceCheck(
                case=case,
                reference=reference,
                quantity=quantity,
                difference=difference,
                limit=limit,
                commit=trainer_commit(ROOT)[0],
                day=datetime.now(UTC).date().isoformat(),
                command="pytest -m long tests/references",
            )
        )

    yield record
    folder = os.environ.get("MAXVIEW_REFERENCES")
    if folder and checks:
        Path(folder).mkdir(parents=True, exist_ok=True)
        text = json.dumps([check.model_dump() for check in checks], indent=1)
        (Path(folder) / f"{checks[0].reference.partition(' ')[0].lower()}.json").write_text(text + "\n")


@pytest.fixture(scope="session")
def torch_python() -> str:
    """A Python with torch and transformers: MAXVIEW_TORCH_PYTHON, or this one."""
    python = os.environ.get("MAXVIEW_TORCH_PYTHON")
    if python is None and importlib.util.find_spec("torch") is None:
        pytest.skip("MAXVIEW_TORCH_PYTHON does not name the Python of an environment with torch (CONTRIBUTING.md)")
    return python or sys.executable


@pytest.fixture(scope="session")
def transformers_found(
    references: SimpleNamespace, torch_python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, bool], Arrays]:
    """(decoder, packed) -> what transformers computes, all of it in one process: loading torch takes seconds."""
    names = references.DECODERS
    folders = {
        (name, packed): tmp_path_factory.mktemp("job")
        for name in names
        for packed in (False, True)
        if not (packed and "balanced" in name)
    }
    for (name, packed), folder in folders.items():
        references.write_job(references, folder, name, packed=packed)
    run_program(torch_python, "hf_decoder.py", *folders.values())
    return {job: dict(np.load(folder / "found.npz")) for job, folder in folders.items()}


@pytest.fixture(params=[False, True], ids=["linen", "nnx"])
def pure_nnx(request: pytest.FixtureRequest) -> bool:
    """Each test runs in both dialects."""
    return bool(request.param)


@pytest.fixture
def worst() -> Callable[[Arrays, Arrays], tuple[float, str]]:
    """The largest difference of any array, relative to that array's largest value, and the array's name."""

    def compare(ours: Arrays, theirs: Arrays) -> tuple[float, str]:
        assert ours.keys() == theirs.keys()
        return max(
            (float(np.max(np.abs(ours[name] - theirs[name])) / np.max(np.abs(theirs[name]))), name) for name in theirs
        )

    return compare
