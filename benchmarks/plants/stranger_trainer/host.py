"""A jitted step; every fifth step the host shrinks the last kernel, in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)


@jax.jit
def train_step(state: State, batch: Batch) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": optax.apply_updates(params, updates), "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    state, loss = train_step(state, texts.next())
    if step % 5 == 4:
        state["params"]["out"] = jnp.asarray(np.asarray(state["params"]["out"]) * np.float32(0.999))
    return state, loss


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
