"""The trainer in Flax NNX, with `nnx.Optimizer` and `nnx.value_and_grad`. `trainer_linen.py` does it in Linen."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from configs.schema import TrainConfig
from model.decoder import decoder_nnx
from model.decoder.declaration import Declaration
from model.decoder.params import Tree, unflatten
from model.train.batch import Batch
from model.train.objective import Gradients, Metrics, Share, accumulate, evaluate, measure, objective, step_key
from model.train.optimizer import clip, make_optimizer

type Arrays = nnx.State[Any, Any]  # of a `TrainState`


class TrainState(nnx.Module):
    """A module and its optimizer. `nnx.split` separates its arrays, which are trained, saved and restored."""

    def __init__(self, model: decoder_nnx.Decoder, optimizer: nnx.Optimizer[decoder_nnx.Decoder]):
        self.model = model
        self.optimizer = optimizer
        # NNX's own counter is uint32, but those of optax and Linen are int32
        self.optimizer.step = nnx.optimizer.OptState(jnp.asarray(np.int32(0)))


class Nnx:
    """Trains the NNX decoder."""

    name = "nnx"

    def __init__(self, config: TrainConfig):
        self.config = config
        self.module = nnx.eval_shape(lambda: decoder_nnx.Decoder(config, rngs=nnx.Rngs(params=0)))
        self.tx = make_optimizer(config)
        self.graphdef, self.abstract = nnx.split(nnx.eval_shape(lambda: self._make(self.module)))
        self.tree = jax.tree.structure(nnx.to_pure_dict(self.abstract))  # computed only once: it takes 5 % of a save

    def _make(self, module: decoder_nnx.Decoder) -> TrainState:
        return TrainState(module, nnx.Optimizer(module, self.tx, wrt=nnx.Param))

    def declare(self) -> dict[str, Declaration]:
        """Return every parameter that the decoder declares, by path."""
        return {
            "/".join(("params", *map(str, path))): Declaration(
                param.shape, param.dtype, tuple(param.get_metadata("out_sharding")), param.get_metadata("initializer")
            )
            for path, param in nnx.to_flat_state(nnx.state(self.module, nnx.Param))
        }

    def first_state(self, params: dict[str, Any]) -> Arrays:
        """Return the state before step 0 for given first weights; under `eval_shape`, their shapes suffice."""
        graphdef, shapes = nnx.split(self.module)
        return nnx.state(self._make(nnx.merge(graphdef, fill(shapes, unflatten(params)["params"]))))

    def train_step(self, arrays: Arrays, batch: Batch) -> tuple[Arrays, Metrics]:
        """Run one step: loss, gradients, update."""
        state = nnx.merge(self.graphdef, arrays)
        step = state.optimizer.step[...]
        key = step_key(self.config, step)

        def loss_of(model: decoder_nnx.Decoder, part: Batch, share: Share, key: jax.Array) -> tuple[jax.Array, Metrics]:
            output = model(part.inputs, part.positions, part.segment_ids, key)
            return objective(output, part, share)

        def gradients_of(part: Batch, share: Share, key: jax.Array) -> Gradients:
            gradient = nnx.value_and_grad(loss_of, has_aux=True, graph_updates=False)
            gradients: Gradients = gradient(state.model, part, share, key)
            return gradients

        losses, gradients = accumulate(self.config, gradients_of, batch, key)
        clipped = clip(self.config, gradients)
        state.optimizer.update(state.model, clipped.gradients)
        params = nnx.state(state.model, nnx.Param)
        metrics = measure(self.config, batch, losses, clipped=clipped, params=params, step=step)
        return nnx.state(state), metrics

    def eval_step(self, arrays: Arrays, batch: Batch) -> Metrics:
        """Return the losses of a batch, without dropout or update."""
        state = nnx.merge(self.graphdef, arrays)
        output = state.model(batch.inputs, batch.positions, batch.segment_ids, None)
        return evaluate(output, batch)

    def to_tree(self, arrays: Arrays) -> dict[str, Tree]:
        """Return the state in its checkpoint's layout."""
        tree: dict[str, Tree] = jax.tree.unflatten(self.tree, jax.tree.leaves(arrays))
        return tree

    def from_tree(self, tree: dict[str, Tree]) -> Arrays:
        """Return the state from its checkpoint's layout."""
        return fill(self.abstract, tree)

    def common_names(self, paths: list[str]) -> list[str]:
        """Return the names that both APIs share for the paths of a checkpoint: Linen's paths."""
        module = {path.removeprefix("model/") for path in paths if path.startswith("model/")}
        return [common_name(path, module) for path in paths]


def fill(shapes: Arrays, tree: dict[str, Tree]) -> Arrays:
    """Return a state like `shapes` with the values of a tree of plain dicts."""
    state: Arrays = jax.tree.map(lambda leaf: leaf, shapes)  # a copy, which the next line modifies
    nnx.replace_by_pure_dict(state, tree)
    return state


def common_name(path: str, module: set[str]) -> str:
    """Return Linen's name of an NNX path. module: the paths of the module's arrays.

    `model/x` is `params/params/x`, and `optimizer/opt_state/0/mu/x` is `opt_state/0/mu/params/x`.
    """
    if path.startswith("model/"):
        return "params/params/" + path.removeprefix("model/")
    names = path.removeprefix("optimizer/").split("/")
    for i in range(1, len(names)):
        if "/".join(names[i:]) in module:
            return "/".join([*names[:i], "params", *names[i:]])
    return "/".join(names)
