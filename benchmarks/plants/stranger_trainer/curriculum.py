"""A jitted step that is compiled twice: from step 10 on, batches have eight rows in place of four."""

import jax
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.adamw(args.lr, weight_decay=0.1)
SMALL = 4


@jax.jit
def train_step(state: State, batch: Batch) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    if batch[0].shape[0] > SMALL:
        gradients = jax.tree.map(lambda x: 1.0 * x, gradients)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": optax.apply_updates(params, updates), "moments": moments}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    return train_step(state, texts.next(rows=SMALL if step < 10 else 2 * SMALL))


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params)}, update)
