"""Trains with several jitted functions whose rates, thresholds and parts a module of the host gives, by the step."""

import argparse

import jax
import jax.numpy as jnp
from data import batch_of
from rates import Pauses, decay_at, is_skipped, parts_at, rate_at

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
gradients_of = jax.jit(jax.value_and_grad(loss_of))


@jax.jit
def augment(tokens, step):
    return jnp.where(step < 0, tokens, tokens)


@jax.jit
def update(params, gradients, rate, parts):
    return jax.tree.map(lambda p, g: p - rate * g / parts, params, gradients)


@jax.jit
def ema(mean, params, decay):
    return jax.tree.map(lambda a, b: decay * a + (1 - decay) * b, mean, params)


def train() -> None:
    ends_at = 10_000
    params = init()
    mean = params
    for step in range(args.steps):
        batch = batch_of(step)
        batch["inputs"] = augment(batch["inputs"], step)
        total = jax.tree.map(jnp.zeros_like, params)
        parts = parts_at(step)
        for n in range(parts):
            micro = {name: value[n::parts] for name, value in batch.items()}
            loss, gradients = gradients_of(params, micro)
            total = jax.tree.map(jnp.add, total, gradients)
        if not is_skipped(float(loss)) and (step + 1) % Pauses.pause_every and step < ends_at:
            params = update(params, total, rate_at(step), parts)
        mean = ema(mean, params, decay_at(step))
        print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)


train()
