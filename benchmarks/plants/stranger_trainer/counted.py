"""A jitted step whose counter is an argument from the host."""

import jax
import jax.numpy as jnp
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.scale_by_adam()


@jax.jit
def train_step(state: State, batch: Batch, count: int) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    rate = args.lr * jnp.exp(-1e-3 * count)
    return {"params": jax.tree.map(lambda x, move: x - rate * move, params, updates), "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return train_step(state, texts.next(), step)


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
