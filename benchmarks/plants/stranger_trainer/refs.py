"""A jitted step that keeps the average of the weights in references, which it writes in place."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)
params = first_weights()
average = jax.tree.map(jax.new_ref, params)


@jax.jit
def train_step(state: State, batch: Batch, average: State) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss; move the average."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    params = optax.apply_updates(params, updates)
    for held, new in zip(jax.tree.leaves(average), jax.tree.leaves(params), strict=True):
        held[...] = 0.99 * held[...] + 0.01 * new
    return {"params": params, "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return train_step(state, texts.next(), average)


train(args, {"params": params, "moments": optimizer.init(params)}, update)
