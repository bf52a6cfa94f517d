"""A jitted step with a static argument: the phase of the training. Its last phase begins at step 50."""

from functools import partial

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)
BEGIN_OF_LAST = 50


@partial(jax.jit, static_argnames="phase")
def train_step(state: State, batch: Batch, phase: str) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    factor = 0.5 if phase == "last" else 1.0
    gradients = jax.tree.map(lambda x: x * factor, gradients)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": optax.apply_updates(params, updates), "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return train_step(state, texts.next(), phase="last" if step >= BEGIN_OF_LAST else "first")


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
