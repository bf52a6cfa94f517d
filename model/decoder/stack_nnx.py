"""Runs a group of layers in NNX: as one scanned module, as one module per layer, or as a pipeline.

`stack_linen.py` does the same in Linen. Each stack is a pair of functions, because NNX creates all modules before it
uses any: `make` adds the modules to the parent, and `run` calls them. With `graph_updates=False` a transform does not
write back unchanged parameters. Unrolled layers are attributes `layers_0`, `layers_1`, … as in Linen, and not an
`nnx.List`: it would sort layer 2 before layer 10, but Linen's names sort 10 before 2. Gradient norms are summed in that
order, so with more than ten layers the two APIs would compile different programs.
"""

from collections.abc import Callable
from typing import Protocol

import jax
from flax import nnx

from configs.schema import TrainConfig
from model.decoder import layers
from model.decoder.params import Tree
from model.decoder.pipeline import run_pipeline

type StackOutput = tuple[jax.Array, dict[str, jax.Array]]  # activations, auxiliary losses by name
type LayerType = Callable[..., nnx.Module]


def run_layer(
    module: Callable[..., StackOutput], x_BLE: jax.Array, layer: jax.Array, context: layers.Context
) -> StackOutput:
    """Run a layer. NNX's transforms need this function, because they transform functions, not modules."""
    return module(x_BLE, layer, context)


def remat(config: TrainConfig, *, prevent_cse: bool) -> Callable[..., StackOutput]:
    """Return `run_layer`, wrapped in `nnx.remat` according to `remat_policy`; "none" leaves it unchanged."""
    if config.remat_policy == "none":
        return run_layer
    policy = layers.REMAT_POLICIES[config.remat_policy]
    return nnx.remat(run_layer, prevent_cse=prevent_cse, policy=policy, graph_updates=False)


class Stack(Protocol):
    """The two functions of a stack."""

    @staticmethod
    def make(
        parent: nnx.Module, config: TrainConfig, layer_type: LayerType, group: layers.LayerGroup, rngs: nnx.Rngs
    ) -> None: ...

    @staticmethod
    def run(
        parent: nnx.Module, config: TrainConfig, group: layers.LayerGroup, x_BLE: jax.Array, context: layers.Context
    ) -> StackOutput: ...


class Scanned:
    """Run the layers as one scanned module, whose parameters have a layer axis."""

    @staticmethod
    def make(
        parent: nnx.Module, config: TrainConfig, layer_type: LayerType, group: layers.LayerGroup, rngs: nnx.Rngs
    ) -> None:
        @nnx.split_rngs(splits=group.layers)
        @nnx.vmap(out_axes=config.param_scan_axis, transform_metadata={nnx.PARTITION_NAME: "layers"})
        def make_layers(rngs: nnx.Rngs) -> nnx.Module:
            return layer_type(config, group.mlp, rngs=rngs)

        setattr(parent, group.name, make_layers(rngs))

    @staticmethod
    def run(
        parent: nnx.Module, config: TrainConfig, group: layers.LayerGroup, x_BLE: jax.Array, context: layers.Context
    ) -> StackOutput:
        scan = nnx.scan(
            # inside a scan XLA cannot merge the recomputation with the forward pass anyway
            remat(config, prevent_cse=False),
            in_axes=(config.param_scan_axis, nnx.Carry, 0, None),
            out_axes=(nnx.Carry, 0),
            length=group.layers,
            transform_metadata={nnx.PARTITION_NAME: "layers"},
            graph_updates=False,
        )
        output: StackOutput = scan(getattr(parent, group.name), x_BLE, group.numbers, context)
        return output


class Unrolled:
    """Run the layers one after another, each as its own module."""

    @staticmethod
    def make(
        parent: nnx.Module, config: TrainConfig, layer_type: LayerType, group: layers.LayerGroup, rngs: nnx.Rngs
    ) -> None:
        for i in range(group.layers):
            setattr(parent, f"{group.name}_{i}", layer_type(config, group.mlp, rngs=rngs))

    @staticmethod
    def run(
        parent: nnx.Module, config: TrainConfig, group: layers.LayerGroup, x_BLE: jax.Array, context: layers.Context
    ) -> StackOutput:
        run, losses = remat(config, prevent_cse=True), []
        for i in range(group.layers):
            x_BLE, layer_losses = run(
                getattr(parent, f"{group.name}_{i}"), x_BLE, jax.numpy.int32(group.first + i), context
            )
            losses.append(layer_losses)
        return x_BLE, layers.add_losses(*losses)


class Pipelined(Scanned):
    """Run the layers in a pipeline with the scanned module's parameters; there are no auxiliary losses."""

    @staticmethod
    def run(
        parent: nnx.Module, config: TrainConfig, group: layers.LayerGroup, x_BLE: jax.Array, context: layers.Context
    ) -> StackOutput:
        graphdef, params = nnx.split(getattr(parent, group.name))

        def run_layer(params: Tree, x_BLE: jax.Array, number: jax.Array, context: layers.Context) -> jax.Array:
            x_BLE, _ = nnx.merge(graphdef, params)(x_BLE, number, context)
            return x_BLE

        return run_pipeline(config, group, run_layer, params=params, x_BLE=x_BLE, context=context), {}


# The keys are the results of `layers.stack_name`.
STACKS: dict[str, type[Stack]] = {"scan": Scanned, "unrolled": Unrolled, "pipeline": Pipelined}
