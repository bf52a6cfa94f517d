"""Trains an NNX model by two functions of `nnx.jit`, for the gradients and for the update; another one evaluates."""

import argparse

import jax
import jax.numpy as jnp
import optax
from data import VOCABULARY, batch_of
from flax import nnx

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()


class Model(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.embed = nnx.Embed(VOCABULARY, 16, rngs=rngs)
        self.norm = nnx.RMSNorm(16, rngs=rngs)
        self.up, self.down = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 16, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.norm(self.embed(tokens))
        x = x + self.down(nnx.silu(self.up(x)))
        return self.embed.attend(x)


def loss_of(model: Model, batch: dict) -> jax.Array:
    losses = optax.softmax_cross_entropy_with_integer_labels(model(batch["inputs"]), batch["targets"])
    return jnp.mean(losses)


@nnx.jit
def gradients_of(model, batch):
    return nnx.value_and_grad(loss_of)(model, batch)


@nnx.jit
def update(model, optimizer, gradients):
    optimizer.update(model, gradients)


evaluate = nnx.jit(loss_of)
model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-2, weight_decay=1e-2), wrt=nnx.Param)
for step in range(args.steps):
    loss, gradients = gradients_of(model, batch_of(step))
    update(model, optimizer, gradients)
    if step % 4 == 3:
        print(f"evaluation: {float(evaluate(model, batch_of(0, seed=1))):.6f}")
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
