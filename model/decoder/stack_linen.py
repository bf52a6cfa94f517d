"""Runs a group of layers in Linen: as one scanned module, as one module per layer, or as a pipeline.

`stack_nnx.py` does the same in NNX. Each stack is a function, not a module: Linen creates
submodules where they are first used, so the parent module calls the function.
"""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax

from configs.schema import TrainConfig
from model.decoder import layers
from model.decoder.params import Tree
from model.decoder.pipeline import run_pipeline

type StackOutput = tuple[jax.Array, dict[str, jax.Array]]  # activations, auxiliary losses by name
type LayerType = Callable[..., nn.Module]


class StackInputs(NamedTuple):
    """The inputs of a stack: parent module, config, layer class and layer group."""

    parent: nn.Module
    config: TrainConfig
    layer_type: LayerType
    group: layers.LayerGroup


def remat(config: TrainConfig, layer_type: LayerType, *, prevent_cse: bool) -> LayerType:
    """Return the layer class, wrapped in `nn.remat` according to `remat_policy`; "none" leaves it unchanged."""
    if config.remat_policy == "none":
        return layer_type
    return nn.remat(layer_type, prevent_cse=prevent_cse, policy=layers.REMAT_POLICIES[config.remat_policy])


def run_scanned(inputs: StackInputs, x_BLE: jax.Array, context: layers.Context) -> StackOutput:
    """Run the layers as one scanned module, whose parameters have a layer axis."""
    _, config, layer_type, group = inputs
    module = nn.scan(
        # inside a scan XLA cannot merge the recomputation with the forward pass anyway
        remat(config, layer_type, prevent_cse=False),
        variable_axes={"params": config.param_scan_axis},
        split_rngs={"params": True},
        in_axes=(0, nn.broadcast),
        length=group.layers,
        metadata_params={nn.PARTITION_NAME: "layers"},
        check_constancy_invariants=False,  # the check would trace the layer twice
    )
    output: StackOutput = module(config, group.mlp, name=group.name)(x_BLE, group.numbers, context)
    return output


def run_unrolled(inputs: StackInputs, x_BLE: jax.Array, context: layers.Context) -> StackOutput:
    """Run the layers one after another, each as its own module."""
    _, config, layer_type, group = inputs
    module, losses = remat(config, layer_type, prevent_cse=True), []
    for i in range(group.layers):
        layer = module(config, group.mlp, name=f"{group.name}_{i}")
        x_BLE, layer_losses = layer(x_BLE, jax.numpy.int32(group.first + i), context)
        losses.append(layer_losses)
    return x_BLE, layers.add_losses(*losses)


def run_pipelined(inputs: StackInputs, x_BLE: jax.Array, context: layers.Context) -> StackOutput:
    """Run the layers in a pipeline with the scanned module's parameters; there are no auxiliary losses."""
    parent, config, layer_type, group = inputs
    if parent.is_initializing():  # the scanned module creates the parameters
        return run_scanned(inputs, x_BLE, context)
    layer = layer_type(config, group.mlp, parent=None)

    def run_layer(params: Tree, x_BLE: jax.Array, number: jax.Array, context: layers.Context) -> jax.Array:
        x_BLE, _ = layer.apply({"params": params}, x_BLE, number, context)
        return x_BLE

    return run_pipeline(
        config, group, run_layer, params=parent.variables["params"][group.name], x_BLE=x_BLE, context=context
    ), {}


# The keys are the results of `layers.stack_name`.
STACKS = {"scan": run_scanned, "unrolled": run_unrolled, "pipeline": run_pipelined}
