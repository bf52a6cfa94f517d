"""Our real step on given weights and batches, at a size of a few thousand numbers."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from configs.schema import TrainConfig
from maxview_probe.evaluate.compare_function import to_float64
from maxview_probe.evaluate.recorded_step import mlir_context
from maxview_probe.evaluate.run_program import RunnableProgram
from maxview_probe.evaluate.widen import widen_program
from tests.small_trainer import small_config

type Arrays = dict[str, NDArray[Any]]

# all sizes differ if possible, so that swapped axes are detected
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


@dataclass(frozen=True)
class Found:
    """The results of one side for a batch, and for as many steps as there are batches."""

    loss: float
    logits: NDArray[Any]  # BLV
    gradients: Arrays  # by our names
    steps: list[dict[str, float]]  # the metrics of each
    once: Arrays  # the parameters after the first step, by our names
    params: Arrays  # and after the last step


def mini(case: str = "01_base", **changes: Any) -> TrainConfig:
    """A case at a size for tests, in float32."""
    return small_config(case, MINI | changes)


def draw_weights(config: TrainConfig) -> Arrays:
    """Weights by our names: none is 0 or 1, unlike the first values of a norm."""
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


def draw_gradients(weights: Arrays, count: int) -> list[Arrays]:
    """Gradients of every size from 1e-12 to 10, some exactly 0: an epsilon of 1e-8 and clipping both matter."""
    rng = np.random.default_rng(2)

    def draw(shape: tuple[int, ...]) -> NDArray[Any]:
        drawn = rng.standard_normal(shape) * 10.0 ** rng.integers(-12, 2, shape) * (rng.random(shape) > 0.05)
        return drawn.astype(np.float32)

    return [{name: draw(array.shape) for name, array in sorted(weights.items())} for _ in range(count)]


class Given(NamedTuple):
    """A batch with the gradients that replace its own, in the order of their names."""

    batch: Any
    weights: Any
    gradients: Arrays


class Ours:
    """Our real step, as `model.train` compiles it, for one config."""

    def __init__(self, config: TrainConfig):
        from model.decoder.sharding import make_mesh
        from model.train.api import make_api
        from model.train.step import declare_state, lower_step, make_program

        self.config, self.packed = config, config.dataset_type == "grain"
        self.setup = declare_state(config, make_api(config), make_mesh(config, jax.devices()[:1]))
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
        """One of our batches; if a sequence is one text, the batch has no segments."""
        from model.train.batch import Batch

        return Batch(**(arrays if self.packed else arrays | {"segment_ids": None}))

    def start(self, weights: Arrays) -> Any:
        """The state before the first step, with these weights."""
        from model.train.step import placements

        first = self.setup.api.first_state({f"params/{path}": np.asarray(value) for path, value in weights.items()})
        return jax.tree.map(jax.device_put, first, placements(self.setup))

    def read_logits(self, weights: Arrays, arrays: Arrays) -> NDArray[Any]:
        """The logits of a batch, without dropout."""
        return np.asarray(self.decode(self.start(weights), self.batch_of(arrays)))

    def step_with(self, weights: Arrays, gradients: Sequence[Arrays]) -> list[Arrays]:
        """Return the parameters after each step with given gradients instead of the decoder's: the optimizer alone."""
        import model.train.trainer_linen as linen
        import model.train.trainer_nnx as nnx
        from model.train.api import name_arrays
        from model.train.objective import Share

        trainer = nnx if self.config.pure_nnx else linen
        found = []

        def replace(config: TrainConfig, gradients_of: Any, batch: Any, key: jax.Array) -> tuple[Any, Any]:
            _, tree = jax.eval_shape(gradients_of, batch.batch, Share(jax.numpy.float32(1), 1.0), key)
            return {}, jax.tree.unflatten(jax.tree.structure(tree), [batch.gradients[name] for name in batch.gradients])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trainer, "accumulate", replace)
            step = jax.jit(self.setup.api.train_step)
            state = self.start(weights)
            batch = self.batch_of(make_batches(self.config, 1, packed=self.packed)[0])
            for arrays in gradients:
                # a dict's keys are flattened in order, as the trees of both APIs are
                state, _ = step(state, Given(batch, batch.weights, arrays))
                found.append(params_of(name_arrays(self.setup.api, state), "params/params/"))
        return found

    def train(self, weights: Arrays, batches: Sequence[Arrays]) -> Found:
        """Steps from these weights on these batches.

        The first gradient is derived from the first moment, which is 1 - `adam_b1` times the gradient, before clipping.
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


def widened_gradients(config: TrainConfig, weights: Arrays, arrays: Arrays) -> tuple[float, Arrays]:
    """Return the loss and the gradients of our step in float64, by our names.

    The gradient is derived from the first moment, as in `Ours.train`.
    """
    from model.train.api import name_arrays
    from model.train.step import lower_step

    ours = our_step(config)
    lowered = lower_step(ours.setup)
    state = ours.start(weights)
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])  # type: ignore[attr-defined]
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((state, ours.batch_of(arrays)))]
    with mlir_context():
        text = widen_program(lowered.as_text())
    with jax.enable_x64(True):
        results = RunnableProgram(text, 1, quickly=True)([to_float64(leaves[n]) for n in kept])
    count = len(jax.tree.leaves(state))
    metrics = jax.tree.unflatten(jax.tree.structure(lowered.out_info[1]), results[count:])
    named = name_arrays(ours.setup.api, jax.tree.unflatten(jax.tree.structure(state), results[:count]))
    held = np.float64(np.float32(1 - config.adam_b1))  # as the program holds it
    scale = held * metrics["grad_norm"] / metrics["raw_grad_norm"]
    moments = params_of(named, "opt_state/0/mu/params/")
    return float(metrics["loss"]), {name: value / scale for name, value in moments.items()}


def params_of(named: dict[str, Any], prefix: str) -> Arrays:
    """The arrays below a prefix, under the rest of their names."""
    return {name.removeprefix(prefix): np.asarray(leaf) for name, leaf in named.items() if name.startswith(prefix)}


@functools.cache
def our_step(config: TrainConfig) -> Ours:
    """Return the compiled step of a config, compiled once per process."""
    return Ours(config)
