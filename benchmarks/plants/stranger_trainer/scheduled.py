"""A jitted step whose rate is an argument that the host computes."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.scale_by_adam()


def rate_of(step: int) -> float:
    """Return the rate of a step."""
    return args.lr / (1 + 0.01 * step)


@jax.jit
def train_step(state: State, batch: Batch, rate: float) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": jax.tree.map(lambda x, move: x - rate * move, params, updates), "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return train_step(state, texts.next(), rate_of(step))


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
