"""The parts of a training step that both APIs share: loss, gradient accumulation, metrics."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from configs.schema import TrainConfig
from model.decoder.layers import Output
from model.decoder.params import Tree
from model.train.batch import Batch, split_batch, total_weights
from model.train.loss import cross_entropy
from model.train.optimizer import Clipped, make_schedule

type Metrics = dict[str, jax.Array]
type Gradients = tuple[tuple[jax.Array, Metrics], Tree]  # the result of `value_and_grad`: (loss, its terms), gradients


def step_key(config: TrainConfig, step: jax.Array) -> jax.Array:
    """Return the random key of a step. It depends on seed and step only, so it is the same after a resume."""
    return jax.random.fold_in(jax.random.key(config.init_weights_seed), step)


class Share(NamedTuple):
    """Factors with which the losses of the microbatches add up to the loss of the complete batch."""

    weight: jax.Array  # factor of each prediction's weight: 1 / (sum of all weights of the step)
    part: float  # factor of a mean over a microbatch: 1 / (number of microbatches)


def objective(output: Output, batch: Batch, share: Share) -> tuple[jax.Array, Metrics]:
    """Return the minimised loss, and its terms by name: `lm_loss` and the auxiliary losses."""
    weights = batch.weights.astype(jnp.float32) * share.weight
    lm_loss = cross_entropy(output.x_BLE, output.kernel_EV, batch.targets, weights)
    auxiliary = {name: loss * share.part for name, loss in output.auxiliary.items()}
    return sum(auxiliary.values(), lm_loss), {"lm_loss": lm_loss} | auxiliary


def evaluate(output: Output, batch: Batch) -> Metrics:
    """Return the loss of an evaluation batch, its terms by name, and the sum of the weights (`total_weights`)."""
    weights = total_weights(batch)
    loss, parts = objective(output, batch, Share(1 / weights, 1.0))
    return {"loss": loss} | parts | {"total_weights": weights}


def accumulate(
    config: TrainConfig,
    gradients_of: Callable[[Batch, Share, jax.Array], Gradients],
    batch: Batch,
    key: jax.Array,
) -> tuple[Metrics, Tree]:
    """Return the loss of a batch (`loss`) with its terms by name, and the gradients; all are summed over microbatches.

    The number of microbatches is `gradient_accumulation_steps`.
    """
    parts = config.gradient_accumulation_steps
    share = Share(1 / total_weights(batch), 1 / parts)
    if parts == 1:
        (loss, losses), gradients = gradients_of(batch, share, key)
        return {"loss": loss} | losses, gradients

    def add(total: Gradients, numbered: tuple[Batch, jax.Array]) -> tuple[Gradients, None]:
        part, number = numbered
        return jax.tree.map(jnp.add, total, gradients_of(part, share, jax.random.fold_in(key, number))), None

    split = split_batch(batch, parts)
    one = jax.tree.map(lambda x: x[0], split)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(gradients_of, one, share, key))
    ((loss, losses), gradients), _ = jax.lax.scan(add, zeros, (split, jnp.arange(parts)))
    return {"loss": loss} | losses, gradients


def measure(
    config: TrainConfig,
    batch: Batch,
    losses: Metrics,
    *,
    clipped: Clipped,
    params: Tree,
    step: jax.Array,
) -> Metrics:
    """Return the metrics of a step: the losses, norms, learning rate and sum of the weights.

    params: the parameters after the update.
    """
    return losses | {
        "grad_norm": clipped.norm,
        "raw_grad_norm": clipped.raw_norm,
        "param_norm": optax.tree.norm(params),
        "learning_rate": jnp.asarray(make_schedule(config)(step), jnp.float32),
        "total_weights": total_weights(batch),
    }
