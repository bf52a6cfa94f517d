"""A jitted function for the gradients, and an optimizer that runs operation by operation."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)


@jax.jit
def gradients_of(params: State, batch: Batch) -> tuple[jax.Array, State]:
    """Return loss and gradients."""
    return jax.value_and_grad(loss_of)(params, batch)


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    loss, gradients = gradients_of(state["params"], texts.next())
    updates, moments = optimizer.update(gradients, state["moments"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "moments": moments}, loss


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
