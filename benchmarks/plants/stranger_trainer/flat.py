"""A jitted step on a list of arrays without names."""

import jax
import jax.numpy as jnp
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
shapes = jax.tree.structure(first_weights())


@jax.jit
def advance(leaves: list[jax.Array], batch: Batch) -> tuple[list[jax.Array], jax.Array]:
    """Return the weights after a step of gradient descent, and the loss."""
    loss, gradients = jax.value_and_grad(lambda x: loss_of(jax.tree.unflatten(shapes, x), batch))(leaves)
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in gradients))
    factor = jnp.minimum(1.0, 1.0 / norm)
    return [x - args.lr * factor * move for x, move in zip(leaves, gradients, strict=True)], loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    leaves, loss = advance(state["leaves"], texts.next())
    return {"leaves": leaves}, loss


train(args, {"leaves": jax.tree.leaves(first_weights())}, update)
