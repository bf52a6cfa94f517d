"""A jitted step, and an average of the weights by another jitted function."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)


@jax.jit
def train_step(params: State, moments: optax.OptState, batch: Batch) -> tuple[State, optax.OptState, jax.Array]:
    """Return weights, moments and loss."""
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, moments, params)
    return optax.apply_updates(params, updates), moments, loss


@jax.jit
def average(old: State, params: State) -> State:
    """Return the average, with the new weights."""
    return jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new, old, params)


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    params, moments, loss = train_step(state["params"], state["moments"], texts.next())
    return {"params": params, "moments": moments, "average": average(state["average"], params)}, loss


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params), "average": params}, update)
