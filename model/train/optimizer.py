"""The optimizer: AdamW, clipping, warm-up and cosine decay, all as in MaxText."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from configs.schema import TrainConfig
from model.decoder.params import Tree


def schedule_steps(config: TrainConfig) -> int:
    """Return the length of the schedule in steps; `learning_rate_schedule_steps: -1` means all of the run's steps."""
    length = config.learning_rate_schedule_steps
    return config.steps if length == -1 else length


def make_schedule(config: TrainConfig) -> optax.Schedule:
    """Return the learning rate schedule: linear warm-up, cosine decay to the final share, then 0 (Llama 2, sec. 2.2).

    The cosine reaches its end at its last step, so its progress is step / (number of its steps - 1).
    """
    length = schedule_steps(config)
    warmup = int(length * config.warmup_steps_fraction)
    decay = length - warmup
    peak, final = config.learning_rate, config.learning_rate * config.learning_rate_final_fraction

    def cosine(step: jax.typing.ArrayLike) -> jax.Array:
        progress = jnp.asarray(step) / (decay - 1) if decay > 1 else jnp.float32(1.0)
        share = 0.5 * (jnp.cos(jnp.pi * progress) + 1.0)
        return peak * share + final * (1.0 - share)

    pieces: list[optax.Schedule] = []
    ends: list[int] = []
    if warmup > 0:
        pieces.append(optax.linear_schedule(0.0, peak, warmup))
        ends.append(warmup)
    if decay > 0:
        pieces.append(cosine)
        ends.append(length)
    if config.steps > length:
        pieces.append(optax.constant_schedule(0.0))
    return optax.join_schedules(pieces, ends[: len(pieces) - 1])


def make_optimizer(config: TrainConfig) -> optax.GradientTransformation:
    """Return AdamW with weight decay on every parameter. `clip` is separate, because its norms are metrics."""
    return optax.adamw(
        make_schedule(config),
        b1=config.adam_b1,
        b2=config.adam_b2,
        eps=config.adam_eps,
        eps_root=config.adam_eps_root,
        weight_decay=config.adam_weight_decay,
    )


class Clipped(NamedTuple):
    """Gradients, and their norms before and after clipping."""

    gradients: Tree
    raw_norm: jax.Array
    norm: jax.Array


def clip(config: TrainConfig, gradients: Tree) -> Clipped:
    """Scale the gradients down to the norm `gradient_clipping_threshold`; 0 switches clipping off.

    All gradients are multiplied by one factor, which XLA fuses into other kernels. optax divides and multiplies each
    element, which XLA compiles into separate kernels per shape (decision 0034).
    """
    norm, limit = optax.tree.norm(gradients), config.gradient_clipping_threshold
    if limit <= 0:
        return Clipped(gradients, norm, norm)
    factor = jnp.minimum(1.0, limit / norm)
    return Clipped(jax.tree.map(lambda x: x * factor.astype(x.dtype), gradients), norm, norm * factor)
