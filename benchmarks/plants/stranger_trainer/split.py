"""Two jitted functions: one for the gradients, one for the update."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)


@jax.jit
def gradients_of(params: State, batch: Batch) -> tuple[jax.Array, State]:
    """Return loss and gradients."""
    return jax.value_and_grad(loss_of)(params, batch)


@jax.jit
def apply(params: State, moments: optax.OptState, gradients: State) -> tuple[State, optax.OptState]:
    """Return weights and moments after the update."""
    updates, moments = optimizer.update(gradients, moments, params)
    return optax.apply_updates(params, updates), moments


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    loss, gradients = gradients_of(state["params"], texts.next())
    params, moments = apply(state["params"], state["moments"], gradients)
    return {"params": params, "moments": moments}, loss


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
