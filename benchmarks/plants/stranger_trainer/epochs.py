"""A jitted step that is made anew for each epoch, with the epoch's rate as a constant."""

from functools import partial

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.scale_by_adam()
STEPS = 8  # of an epoch


def train_step(state: State, batch: Batch, *, rate: float) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": jax.tree.map(lambda x, move: x - rate * move, params, updates), "moments": moments}, loss


def make_step(epoch: int) -> jax.stages.Wrapped:
    """Return the jitted step of an epoch."""
    return jax.jit(partial(train_step, rate=args.lr * 0.9**epoch))


jitted = {epoch: make_step(epoch) for epoch in range(1 + args.steps // STEPS)}


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return jitted[step // STEPS](state, texts.next())


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
