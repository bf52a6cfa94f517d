"""Turns what a decoder says of a batch into the loss, and a step's losses and gradients into its metrics.

Everything in a training step that is neither Linen nor NNX.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from configs.schema import TrainConfig
from model.batch import Batch, total_weights
from model.core import Output, cross_entropy
from model.optimizer import make_schedule

type Tree = Any
type Metrics = dict[str, jax.Array]
type Gradients = tuple[tuple[jax.Array, Metrics], Tree]  # what `value_and_grad` gives: (loss, its parts), gradients


def step_key(config: TrainConfig, step: jax.Array) -> jax.Array:
    """The random key of a step: a run that resumes goes on as if nothing had been."""
    return jax.random.fold_in(jax.random.key(config.init_weights_seed), step)


def objective(output: Output, batch: Batch, share: jax.Array) -> tuple[jax.Array, Metrics]:
    """The loss that is minimised, and its parts.

    share: what one unit of weight counts, 1 / (all weights of the step), so that the parts of a batch add up to it.
    """
    lm_loss = cross_entropy(output.logits_BLV, batch.targets, batch.weights.astype(jnp.float32) * share)
    parts = {"lm_loss": lm_loss} | output.auxiliary
    loss = sum(output.auxiliary.values(), lm_loss)
    return loss, parts


def accumulate(
    config: TrainConfig,
    gradients_of: Callable[[Batch, jax.Array, jax.Array], Gradients],
    batch: Batch,
    key: jax.Array,
) -> tuple[Metrics, Tree]:
    """The losses and gradients of a batch, `loss` among them: at once, or part after part and summed."""
    share = 1 / total_weights(batch)
    (loss, losses), gradients = gradients_of(batch, share, key)
    return {"loss": loss} | losses, gradients


def measure(
    config: TrainConfig,
    batch: Batch,
    losses: Metrics,
    gradients: Tree,
    clipped: Tree,
    params: Tree,
    step: jax.Array,
) -> Metrics:
    """The metrics of a step. `gradients` are as they were before clipping, `params` as they are after the update."""
    return losses | {
        "grad_norm": optax.tree.norm(clipped),
        "raw_grad_norm": optax.tree.norm(gradients),
        "param_norm": optax.tree.norm(params),
        "learning_rate": jnp.asarray(make_schedule(config)(step), jnp.float32),
        "total_weights": total_weights(batch),
    }
