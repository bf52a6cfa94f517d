"""Lowers and compiles the training step and the evaluation step, and makes the first state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np
from jax.extend.core import Literal
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from configs.schema import TrainConfig
from model.compile_record import sha256, strip_hlo, strip_stablehlo
from model.decoder.declaration import Declaration
from model.decoder.params import Tree, draw_params, flatten
from model.decoder.sharding import mesh_spec
from model.train.api import Api
from model.train.batch import Batch
from model.train.data_source import batch_shape
from model.train.objective import Metrics

HOST = "pinned_host"  # JAX's name for host memory


@dataclass(frozen=True)
class Setup:
    """The config, API and mesh of a training run, and its state as shapes without values."""

    config: TrainConfig
    api: Api
    mesh: Mesh
    parameters: dict[str, Declaration]  # by path
    arrays: Tree  # the state in the API's own containers: shapes, dtypes and shardings


@dataclass(frozen=True)
class CompiledStep:
    """The compiled step, with the hashes of its lowered and its optimised text."""

    compiled: jax.stages.Compiled
    structure: jax.tree_util.PyTreeDef  # of the state
    stablehlo_sha256: str
    hlo_sha256: str
    memory: Any  # jax's CompiledMemoryStats, None if the backend reports none

    def run(self, arrays: Tree, batch: Batch) -> tuple[Tree, Metrics]:
        """Run one step; return the state after it and its metrics. The given state is donated: do not use it again."""
        leaves, metrics = self.compiled(arrays, batch)
        return jax.tree.unflatten(self.structure, leaves), metrics


def declare_state(config: TrainConfig, api: Api, mesh: Mesh) -> Setup:
    """Declare the state on a mesh: the optimizer's moments are sharded like their parameters, counters replicated."""
    declared = api.declare()
    shardings = parameter_shardings(declared, mesh)
    shapes = {path: jax.ShapeDtypeStruct(one.shape, one.dtype) for path, one in declared.items()}
    tree = api.to_tree(jax.eval_shape(api.first_state, shapes))
    names = iter(api.common_names(list(flatten(tree))))
    everywhere = NamedSharding(mesh, PartitionSpec())

    def place(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        name = next(names)
        parameter = "params/" + name.rpartition("params/")[-1]
        sharding = shardings.get(parameter, everywhere)
        if config.optimizer_memory_host_offload and name.startswith("opt_state/") and parameter in shardings:
            sharding = sharding.with_memory_kind(HOST)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return Setup(config, api, mesh, declared, api.from_tree(jax.tree.map(place, tree)))


def parameter_shardings(declared: dict[str, Declaration], mesh: Mesh) -> dict[str, NamedSharding]:
    """Return the sharding of each parameter."""
    return {path: NamedSharding(mesh, mesh_spec(one.axes)) for path, one in declared.items()}


def init_state(setup: Setup) -> Tree:
    """Return the state before step 0: first weights and the optimizer's first state."""
    shardings = parameter_shardings(setup.parameters, setup.mesh)
    params = draw_params(setup.config.init_weights_seed, setup.parameters, shardings)
    return jax.tree.map(place_array, fill_on_host(setup.api.first_state, params), placements(setup))


def fill_on_host(first_state: Callable[[dict[str, Any]], Tree], params: dict[str, Any]) -> Tree:
    """Return `first_state(params)`; its new arrays, if all repeat one value (zeros), are numpy views of that value.

    Otherwise calls `first_state`. Such a call compiles one program per shape, and waits until the step is compiled.
    """
    closed, made = jax.make_jaxpr(first_state, return_shape=True)(params)
    values: dict[Any, Any] = dict(zip(closed.jaxpr.invars, jax.tree.leaves(params), strict=True))
    for equation in closed.eqns:
        read, (written,) = equation.invars, equation.outvars
        if equation.primitive.name != "broadcast_in_dim" or not isinstance(read[0], Literal):
            return first_state(params)  # this optimizer starts with other values
        like = cast(jax.core.ShapedArray, written.aval)
        values[written] = np.broadcast_to(np.asarray(read[0].val, like.dtype), like.shape)
    leaves = [np.asarray(x.val) if isinstance(x, Literal) else values[x] for x in closed.jaxpr.outvars]
    return jax.tree.unflatten(jax.tree.structure(made), leaves)


def place_array(array: jax.Array | NDArray[Any], sharding: NamedSharding) -> jax.Array:
    """Place an array on its devices; each device receives only its own piece of a numpy view."""
    if isinstance(array, jax.Array):
        return cast(jax.Array, jax.device_put(array, sharding))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: np.asarray(array[index]))


def placements(setup: Setup) -> Tree:
    """Return the sharding of each array of the state."""
    return jax.tree.map(lambda leaf: leaf.sharding, setup.arrays)


def lower_step(setup: Setup) -> jax.stages.Lowered:
    """Lower the step to StableHLO for the setup's batch shape and mesh. The state is donated.

    The step returns the leaves of the state instead of the tree, because JAX writes the path of each result into the
    program and into the compilation cache's key. With paths, equal programs of both APIs would be compiled twice.
    """
    everywhere = NamedSharding(setup.mesh, PartitionSpec())

    def train_step(arrays: Tree, batch: Batch) -> tuple[list[jax.Array], Metrics]:
        trained, metrics = setup.api.train_step(fetch_offloaded(arrays, setup), batch)
        return jax.tree.leaves(trained), metrics

    jitted = jax.jit(train_step, donate_argnums=0, out_shardings=(jax.tree.leaves(placements(setup)), everywhere))
    with compile_settings(setup):
        return jitted.lower(setup.arrays, batch_shape(setup.config, setup.mesh))


def fetch_offloaded(arrays: Tree, setup: Setup) -> Tree:
    """Return the state with its offloaded arrays moved to the devices."""

    def move(array: jax.Array, kind: jax.ShapeDtypeStruct) -> jax.Array:
        if kind.sharding.memory_kind != HOST:
            return array
        return cast(jax.Array, jax.device_put(array, kind.sharding.with_memory_kind("device")))

    return jax.tree.map(move, arrays, setup.arrays)


@contextmanager
def compile_settings(setup: Setup) -> Iterator[None]:
    """Set the mesh, the partitioner and the matmul precision during the block, to lower or compile a program."""
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", setup.config.shardy)
    try:
        with jax.set_mesh(setup.mesh), jax.default_matmul_precision(setup.config.matmul_precision):
            yield
    finally:
        jax.config.update("jax_use_shardy_partitioner", before)


def compile_eval(setup: Setup) -> jax.stages.Compiled:
    """Compile the evaluation of one batch. The state is not donated."""

    def eval_step(arrays: Tree, batch: Batch) -> Metrics:
        return setup.api.eval_step(arrays, batch)

    with compile_settings(setup):
        return jax.jit(eval_step).lower(setup.arrays, batch_shape(setup.config, setup.mesh)).compile()


def compile_lowered(setup: Setup, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compile a lowered step."""
    with compile_settings(setup):
        return lowered.compile()


def make_program(setup: Setup, lowered: jax.stages.Lowered) -> CompiledStep:
    """Compile a lowered step once; the same executable is analysed, hashed and run."""
    compiled = compile_lowered(setup, lowered)
    return CompiledStep(
        compiled=compiled,
        structure=jax.tree.structure(setup.arrays),
        stablehlo_sha256=sha256(strip_stablehlo(lowered.as_text())),
        hlo_sha256=sha256(strip_hlo(compiled.as_text() or "")),
        memory=compiled.memory_analysis(),
    )
