"""Turns a decoder and an optimizer into the one compiled step that training, resume and cross restore share."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from configs.schema import TrainConfig
from model.core import cross_entropy
from model.data import batch_shape
from model.implementation import Implementation
from model.optimizer import make_clip, make_optimizer, make_schedule
from model.params import init_params
from model.sharding import named_shardings

type Tree = Any


class TrainState(NamedTuple):
    """What a checkpoint holds. `step` counts the steps done, so it is the number of the next one."""

    step: Any  # int32 scalar
    params: Tree
    opt_state: Tree


@dataclass(frozen=True)
class Declaration:
    """A training state before it has values."""

    state: TrainState  # shapes, types and placements
    axes: Tree  # logical axes of the parameters


@dataclass(frozen=True)
class Program:
    """The compiled step, with the hashes of what the compiler read and wrote."""

    run: jax.stages.Compiled  # (TrainState, tokens_BM) -> (TrainState, metrics); the state given is consumed
    stablehlo_sha256: str
    hlo_sha256: str
    memory: Any  # jax's CompiledMemoryStats, None where the backend has none


def make_step(config: TrainConfig, implementation: Implementation) -> Any:
    """The training step as a plain function of (TrainState, tokens_BM)."""
    optimizer, clip, schedule = make_optimizer(config), make_clip(config), make_schedule(config)

    def train_step(state: TrainState, tokens_BM: jax.Array) -> tuple[TrainState, dict[str, jax.Array]]:
        key = jax.random.fold_in(jax.random.key(config.init_weights_seed), state.step)

        def loss_of(params: Tree) -> jax.Array:
            return cross_entropy(implementation.apply(params, tokens_BM[:, :-1], key), tokens_BM[:, 1:])

        loss, raw_gradients = jax.value_and_grad(loss_of)(state.params)
        gradients, _ = clip.update(raw_gradients, clip.init(state.params))
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        metrics = {
            "loss": loss,
            "grad_norm": optax.tree.norm(gradients),
            "raw_grad_norm": optax.tree.norm(raw_gradients),
            "param_norm": optax.tree.norm(params),
            "learning_rate": jnp.asarray(schedule(state.step), jnp.float32),
        }
        return TrainState(state.step + 1, params, opt_state), metrics

    return train_step


def declare_state(config: TrainConfig, implementation: Implementation, mesh: Mesh) -> Declaration:
    """The state's shapes with their placement; moments lie where their parameters lie, counters everywhere."""
    shapes, axes = implementation.declare()
    placed = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        named_shardings(mesh, axes),
    )
    everywhere = NamedSharding(mesh, PartitionSpec())
    optimizer = make_optimizer(config)
    opt_state = optax.tree_map_params(
        optimizer,
        lambda leaf, param: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=param.sharding),
        jax.eval_shape(optimizer.init, shapes),
        placed,
        transform_non_params=lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere),
    )
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere)
    return Declaration(TrainState(step, placed, opt_state), axes)


def init_state(config: TrainConfig, declared: Declaration) -> TrainState:
    """The state before step 0: first weights, zero moments, zero counters."""
    params = init_params(config, declared.state.params)
    zeros = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding),
        (declared.state.step, declared.state.opt_state),
    )
    return TrainState(zeros[0], params, zeros[1])


def lower_step(
    config: TrainConfig, implementation: Implementation, declared: Declaration, mesh: Mesh
) -> jax.stages.Lowered:
    """The step as StableHLO, for one batch shape and one mesh. The state it is given is consumed."""
    jitted = jax.jit(
        make_step(config, implementation),
        donate_argnums=0,
        out_shardings=(
            jax.tree.map(lambda leaf: leaf.sharding, declared.state),
            NamedSharding(mesh, PartitionSpec()),
        ),
    )
    with jax.set_mesh(mesh), jax.default_matmul_precision(config.matmul_precision):
        return jitted.lower(declared.state, batch_shape(config, mesh))


def compile_step(config: TrainConfig, implementation: Implementation, declared: Declaration, mesh: Mesh) -> Program:
    """Lower and compile the step once; the same executable is analysed, hashed and run."""
    lowered = lower_step(config, implementation, declared, mesh)
    compiled = lowered.compile()
    return Program(
        run=compiled,
        stablehlo_sha256=sha256(strip_stablehlo(lowered.as_text())),
        hlo_sha256=sha256(strip_hlo(compiled.as_text() or "")),
        memory=compiled.memory_analysis(),
    )


def sha256(text: str) -> str:
    """Hex digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def strip_stablehlo(text: str) -> str:
    """A lowered program without what does not change what it computes: locations, result names, function names."""
    text = re.sub(r"(?m)^#loc.*\n", "", text)
    text = re.sub(r" loc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "", text)
    text = re.sub(r'jax\.result_info = "[^"]*"', "", text)
    return number_names(text, r"@[\w.$-]+", "@f")


def strip_hlo(text: str) -> str:
    """An optimised program without metadata and source tables, and with its names numbered by first use."""
    text = re.sub(r",? metadata=\{[^}]*\}", "", text)
    text = re.sub(r"(?m)^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*", "", text)
    return number_names(text, r"%[\w.$-]+", "%v")


def number_names(text: str, pattern: str, prefix: str) -> str:
    """Every name that matches, replaced by `prefix` and the order in which it first appears."""
    numbers: dict[str, str] = {}
    return re.sub(pattern, lambda match: numbers.setdefault(match.group(), f"{prefix}{len(numbers)}"), text)
