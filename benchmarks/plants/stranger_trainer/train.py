"""One jitted step: loss, gradients, update, and an average of the weights."""

import jax
import jax.numpy as jnp
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()


def rate(count: jax.Array) -> jax.Array:
    """Return the rate of a step: a cosine of 100 steps, then a tenth."""
    progress = count / 100
    return args.lr * (0.55 + 0.45 * jnp.cos(jnp.pi * jnp.minimum(progress, 1.0)))


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, weight_decay=0.1))


@jax.jit
def train_step(state: State, batch: Batch) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    params = optax.apply_updates(params, updates)
    average = jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, state["average"], params)
    return {"params": params, "moments": moments, "average": average, "step": state["step"] + 1}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return train_step(state, texts.next())


params = first_weights()
first = {"params": params, "moments": optimizer.init(params), "average": params, "step": jnp.int32(0)}
train(args, jax.tree.map(jnp.copy, first), update)
