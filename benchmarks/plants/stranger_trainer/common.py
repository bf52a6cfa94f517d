"""Data, model, log, saves and loop of the trainers in this folder."""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

VOCABULARY, WIDTH, ROWS, LENGTH, TEXTS = 64, 32, 8, 16, 64
POSITIONS = 0.1 * np.sin(np.outer(np.arange(LENGTH), np.arange(1, WIDTH + 1))).astype(np.float32)
TOKEN_WEIGHTS = np.array([1.0] * VOCABULARY, np.float32)  # of each token in the loss

type Batch = tuple[Any, Any]
type State = dict[str, Any]


def read_arguments() -> argparse.Namespace:
    """Return steps, rate and folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def first_weights(seed: int = 0) -> State:
    """Return the weights before step 0."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(random.standard_normal(shape) / np.sqrt(shape[0]), jnp.float32)

    hidden = {"kernel": draw(WIDTH, WIDTH), "bias": jnp.zeros(WIDTH)}
    return {"embedding": draw(VOCABULARY, WIDTH), "hidden": hidden, "out": draw(WIDTH, VOCABULARY)}


def loss_of(params: State, batch: Batch) -> jax.Array:
    """Return the mean loss of the next token."""
    inputs, targets = batch
    x = params["embedding"][inputs] + POSITIONS
    x = x + jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    logits = x @ params["out"]
    picked = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jnp.mean((jax.nn.logsumexp(logits, axis=-1) - picked) * jnp.asarray(TOKEN_WEIGHTS)[targets])


class Texts:
    """Batches of texts, in another order in each epoch. No text has the token 63."""

    def __init__(self, seed: int):
        self.seed, self.position = seed, 0
        self.tokens = np.random.default_rng(seed).integers(0, VOCABULARY - 1, (TEXTS, LENGTH + 1), dtype=np.int32)

    def next(self, rows: int = ROWS) -> Batch:
        """Return inputs and targets."""
        epoch, place = divmod(self.position, TEXTS // rows)
        order = np.random.default_rng([self.seed, epoch]).permutation(TEXTS)
        self.position += 1
        text = self.tokens[order[place * rows : (place + 1) * rows]]
        return text[:, :-1], text[:, 1:]


def train(args: argparse.Namespace, state: State, update: Callable[[State, Texts, int], tuple[State, Any]]) -> State:
    """Run all steps; log each, save after the first and the last."""
    manager, texts = ocp.CheckpointManager(args.out.absolute() / "checkpoints"), Texts(0)
    for step in range(args.steps):
        began = time.perf_counter()
        state, loss = update(state, texts, step)
        loss, seconds = float(loss), time.perf_counter() - began
        count = ROWS * LENGTH
        print(f"completed step: {step}, seconds: {seconds:.3f}, total_weights: {count}, loss: {loss:.3f}", flush=True)
        with (args.out / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": step, "loss": loss, "step_time_s": seconds}) + "\n")
        if step in (0, args.steps - 1):
            manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
    return state
