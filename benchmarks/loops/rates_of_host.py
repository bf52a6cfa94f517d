"""Trains with several jitted functions whose rates, thresholds and parts a module of the host gives, by the step."""

import argparse

import jax
import jax.numpy as jnp
from data import batch_of
from rates import Halved, Pauses, decay_at, factors_of_steps, is_skipped, last_step, parts_at, phase, rate_at

from model import init, loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--ends", type=int, default=20_000)
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


def train(begins_at: int) -> None:
    ends_at = 10_000
    factors = factors_of_steps()
    schedule = Halved(rate_at, every=5_000)
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
        if (
            not is_skipped(float(loss))
            and (step + 1) % Pauses.pause_every
            and begins_at <= step < min(ends_at, args.ends, last_step())
        ):
            params = update(params, total, schedule.rate(step) * next(factors), parts)
        mean = ema(mean, params, decay_at(step) if step < phase("late") else 0.5)
        print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)


train(0)
