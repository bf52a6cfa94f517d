"""A jitted step whose rate comes from the host: as an argument, or from a callback."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import Batch, State, Texts, first_weights, loss_of, read_arguments, train

args = read_arguments()
optimizer = optax.scale_by_adam()
FACTORS = json.loads((Path(__file__).parent / "factors.json").read_text())  # of every tenth step


def decay_of(step: int) -> np.float32:
    """Return the weight decay of a step."""
    return np.float32(0.1)


@jax.jit
def train_step(state: State, batch: Batch, rate: float) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    params = state["params"]
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    decay = jax.pure_callback(decay_of, jax.ShapeDtypeStruct((), np.float32), state["step"])
    updates, moments = optimizer.update(gradients, state["moments"], params)
    params = jax.tree.map(lambda x, move: x - rate * (move + decay * x), params, updates)
    return {"params": params, "moments": moments, "step": state["step"] + 1}, loss


def update(state: State, texts: Texts, step: int) -> tuple[State, jax.Array]:
    """Run a step."""
    rate = args.lr * FACTORS[min(step // 10, len(FACTORS) - 1)]
    return train_step(state, texts.next(), rate)


params = first_weights()
train(args, {"params": params, "moments": optimizer.init(params), "step": jnp.int32(0)}, update)
