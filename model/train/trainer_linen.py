"""The trainer in Flax Linen, with `init`, `apply` and `TrainState`. `trainer_nnx.py` does the same in NNX."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from flax.training.train_state import TrainState

from configs.schema import TrainConfig
from model.decoder import decoder_linen
from model.decoder.declaration import Declaration
from model.decoder.layers import Output
from model.decoder.param_linen import Declared
from model.decoder.params import Tree, path_of, unflatten
from model.train.batch import Batch
from model.train.objective import Gradients, Metrics, Share, accumulate, evaluate, measure, objective, step_key
from model.train.optimizer import clip, make_optimizer


class Arrays(NamedTuple):
    """The arrays of a `TrainState`, in the order in which NNX flattens a module and its optimizer.

    `params` is the variables dict, `{"params": …}`, because MaxText's checkpoints have the paths `params/params/…` too.
    """

    params: Tree
    opt_state: Tree
    step: jax.Array


class Linen:
    """Trains the Linen decoder."""

    name = "linen"

    def __init__(self, config: TrainConfig):
        self.config = config
        self.module = decoder_linen.Decoder(config)
        self.tx = make_optimizer(config)

    def declare(self) -> dict[str, Declaration]:
        """Return every parameter that the decoder declares, by path."""
        # the full length, because some attention kernels reject short ones
        tokens_BL = jax.ShapeDtypeStruct((1, self.config.max_target_length), jnp.int32)
        key = jax.eval_shape(lambda: jax.random.key(0))
        boxed = jax.eval_shape(self.module.init, key, tokens_BL, tokens_BL, None, key)
        leaves, _ = jax.tree_util.tree_flatten_with_path(boxed, is_leaf=lambda node: isinstance(node, Declared))
        return {
            "/".join(path_of(path)): Declaration(box.value.shape, box.value.dtype, tuple(box.names), box.initializer)
            for path, box in leaves
        }

    def first_state(self, params: dict[str, Any]) -> Arrays:
        """Return the state before step 0 for given first weights; under `eval_shape`, their shapes suffice."""
        state = TrainState.create(apply_fn=self.module.apply, params=unflatten(params), tx=self.tx)
        return Arrays(state.params, state.opt_state, jnp.asarray(np.int32(0)))

    def train_step(self, arrays: Arrays, batch: Batch) -> tuple[Arrays, Metrics]:
        """Run one step: loss, gradients, update."""
        state = TrainState(
            step=arrays.step,
            apply_fn=self.module.apply,
            params=arrays.params,
            tx=self.tx,
            opt_state=arrays.opt_state,
        )
        key = step_key(self.config, arrays.step)

        def loss_of(params: Tree, part: Batch, share: Share, key: jax.Array) -> tuple[jax.Array, Metrics]:
            output = state.apply_fn(params, part.inputs, part.positions, part.segment_ids, key)
            return objective(output, part, share)

        def gradients_of(part: Batch, share: Share, key: jax.Array) -> Gradients:
            gradient = jax.value_and_grad(loss_of, has_aux=True)
            return gradient(state.params, part, share, key)

        losses, gradients = accumulate(self.config, gradients_of, batch, key)
        clipped = clip(self.config, gradients)
        after = state.apply_gradients(grads=clipped.gradients)
        metrics = measure(self.config, batch, losses, clipped=clipped, params=after.params, step=arrays.step)
        return Arrays(after.params, after.opt_state, after.step), metrics

    def eval_step(self, arrays: Arrays, batch: Batch) -> Metrics:
        """Return the losses of a batch, without dropout or update."""
        output = cast(Output, self.module.apply(arrays.params, batch.inputs, batch.positions, batch.segment_ids, None))
        return evaluate(output, batch)

    def to_tree(self, arrays: Arrays) -> dict[str, Tree]:
        """Return the state in its checkpoint's layout."""
        return {"step": arrays.step, "params": arrays.params, "opt_state": arrays.opt_state}

    def from_tree(self, tree: dict[str, Tree]) -> Arrays:
        """Return the state from its checkpoint's layout."""
        return Arrays(tree["params"], tree["opt_state"], tree["step"])

    def common_names(self, paths: list[str]) -> list[str]:
        """Return the names that both APIs share for the paths of a checkpoint: Linen's paths."""
        return paths
