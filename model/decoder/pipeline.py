"""Runs layers as an interleaved pipeline: each device along the mesh axis `stage` has several chunks of layers.

With S stages, R chunks on each and n layers in a chunk, stage s has the chunks s, s + S, … (virtual stages, as in
Narayanan et al. 2021). Microbatches go through the stages in groups of S. At tick t, stage s does item t - s of the
common work list, so its input is the output of stage s - 1 at tick t - 1. The input of stage 0 is the output of the
last stage, or a new microbatch.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from configs.model_checks import Pipeline, pipeline_shape
from configs.schema import TrainConfig
from model.decoder import layers
from model.decoder.params import Tree
from model.decoder.sharding import RULES

# (parameters of a layer, x_BLE, number of the layer, context) -> x_BLE
type RunLayer = Callable[[Tree, jax.Array, jax.Array, layers.Context], jax.Array]


class StageWork(NamedTuple):
    """The work of every stage at a tick; the axis S is the stage."""

    chunk_S: jax.Array  # number of the chunk among those of the stage
    microbatch_S: jax.Array


def work_at(shape: Pipeline, tick: jax.Array | int) -> StageWork:
    """Return the chunk and the microbatch of each stage. The output of a stage is discarded before its first and after
    its last item of work."""
    position_S = tick - jnp.arange(shape.stages)
    group_S, within_S = jnp.divmod(position_S, shape.stages * shape.chunks)
    microbatch_S = group_S * shape.stages + within_S % shape.stages
    return StageWork(within_S // shape.stages, jnp.clip(microbatch_S, 0, shape.microbatches - 1))


def last_ticks(shape: Pipeline) -> list[int]:
    """Return the tick at which each microbatch leaves the last stage for the last time."""
    last_stage, group_ticks = shape.stages - 1, shape.stages * shape.chunks
    return [
        last_stage + group * group_ticks + (shape.chunks - 1) * shape.stages + position
        for group in range(shape.microbatches // shape.stages)
        for position in range(shape.stages)
    ]


def schedule_events(shape: Pipeline) -> Iterator[str]:
    """Yield the events of each stage in a step as Megatron-LM prints them: a stage is a `rank`, and `tensor` is chunk ·
    microbatches + microbatch. The backward pass runs the ticks in reverse, as the transposed scan does."""
    ticks = range(last_ticks(shape)[-1] + 1)
    busy_ticks = shape.microbatches * shape.chunks  # per stage
    for direction, order in (("forward", ticks), ("backward", reversed(ticks))):
        for tick in order:
            busy_stages = [stage for stage in range(shape.stages) if 0 <= tick - stage < busy_ticks]
            work = work_at(shape, tick)
            tensor_S = np.asarray(work.chunk_S * shape.microbatches + work.microbatch_S)
            for event in ("start", "finished"):
                yield from (f"rank {stage} {direction} {event} tensor {tensor_S[stage]}" for stage in busy_stages)


def run_pipeline(
    config: TrainConfig,
    group: layers.LayerGroup,
    run_layer: RunLayer,
    *,
    params: Tree,
    x_BLE: jax.Array,
    context: layers.Context,
) -> jax.Array:
    """Run all layers of a group and return x_BLE. `params` have a layer axis, as in a scan."""
    shape = pipeline_shape(config)
    chunked = jax.tree.map(lambda leaf: split_layers(config, shape, leaf), params)
    parts = jax.tree.map(lambda array: split_rows(array, shape.microbatches), (x_BLE, context._replace(key=None)))
    parts_MBLE, contexts = parts
    layer = layers.remat_function(config, run_layer)

    def run_stage(weights: Tree, x_BLE: jax.Array, first: jax.Array, microbatch: jax.Array) -> jax.Array:
        own: layers.Context = jax.tree.map(lambda array: array[microbatch], contexts)
        own = own._replace(key=layers.fold_in(context.key, microbatch))
        for i in range(shape.layers):
            x_BLE = layer(jax.tree.map(lambda leaf, i=i: leaf[i], weights), x_BLE, first + i, own)
        return x_BLE

    def run_tick(outputs_SBLE: jax.Array, tick: jax.Array) -> tuple[jax.Array, jax.Array]:
        work = work_at(shape, tick)
        inputs_SBLE = jnp.roll(outputs_SBLE, 1, axis=0)
        new_BLE = jnp.where(work.chunk_S[0] == 0, parts_MBLE[work.microbatch_S[0]], inputs_SBLE[0])
        inputs_SBLE = on_stages(inputs_SBLE.at[0].set(new_BLE))
        weights = jax.tree.map(lambda leaf: jax.vmap(lambda own, r: own[r])(leaf, work.chunk_S), chunked)
        first_S = group.first + (work.chunk_S * shape.stages + jnp.arange(shape.stages)) * shape.layers
        run = jax.vmap(run_stage, spmd_axis_name=RULES["layers"])
        outputs_SBLE = on_stages(run(weights, inputs_SBLE, first_S, work.microbatch_S))
        return outputs_SBLE, outputs_SBLE[-1]

    ends = last_ticks(shape)
    zeros_SBLE = on_stages(jnp.zeros((shape.stages, *parts_MBLE.shape[1:]), x_BLE.dtype))
    _, finished = jax.lax.scan(run_tick, zeros_SBLE, jnp.arange(ends[-1] + 1))
    return join_rows(finished[jnp.asarray(ends)])


def split_layers(config: TrainConfig, shape: Pipeline, leaf: jax.Array) -> jax.Array:
    """Return a parameter with the leading axes (stage, chunk, layer within the chunk)."""
    first = jnp.moveaxis(leaf, config.param_scan_axis, 0)
    split = first.reshape(shape.chunks, shape.stages, shape.layers, *first.shape[1:])
    return jnp.moveaxis(split, 1, 0)


def split_rows(array: jax.Array, parts: int) -> jax.Array:
    """Split the sequences of a batch into `parts` along a new first axis; sequence b goes to part b mod `parts`."""
    return jnp.moveaxis(array.reshape(-1, parts, *array.shape[1:]), 1, 0)


def join_rows(array: jax.Array) -> jax.Array:
    """Undo `split_rows`."""
    return jnp.moveaxis(array, 0, 1).reshape(-1, *array.shape[2:])


def on_stages(x_SBLE: jax.Array) -> jax.Array:
    """Constrain activations so that those of a stage are on its devices; without a mesh, return them unchanged."""
    if jax.sharding.get_abstract_mesh().empty:
        return x_SBLE
    spec = PartitionSpec(
        *(RULES[axis] for axis in ("layers", "activation_batch", "activation_length", "activation_embed"))
    )
    pinned: jax.Array = jax.lax.with_sharding_constraint(x_SBLE, spec)
    return pinned
