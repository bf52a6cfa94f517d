"""A jitted check of the weights before the training, which returns them; then a jitted step."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)


@jax.jit
def check(params: State, batch: Batch) -> tuple[State, jax.Array]:
    """Return the weights as they are, and their loss."""
    return params, loss_of(params, batch)


@jax.jit
def advance(state: State, batch: Batch) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": optax.apply_updates(params, updates), "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step; check the weights before."""
    batch = texts.next()
    params, _ = check(state["params"], batch)
    return advance({**state, "params": params}, batch)


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
