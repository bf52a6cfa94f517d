"""Trains a classifier with batch norm, smoothed labels of padded classes, Adafactor, and a warm-up of the host.

It reads its losses every sixth step, evaluates every twelfth on rows that no batch size divides, saves, and resumes.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

FEATURES, WIDTH, CLASSES, PADDED, ROWS = 16, 32, 12, 16, 16
REAL = (np.arange(PADDED) < CLASSES).astype(np.float32)  # the others pad the classes
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--out", type=Path)
args = parser.parse_args()
optimizer = optax.adafactor(1.0, min_dim_size_to_factor=8)

type State = dict[str, Any]
type Batch = tuple[np.ndarray, np.ndarray]


def make_rows(rows: int, seed: int) -> Batch:
    """Return features and classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, rows)
    means = np.random.default_rng(7).standard_normal((CLASSES, FEATURES))
    return (means[labels] + 0.5 * random.standard_normal((rows, FEATURES))).astype(np.float32), labels.astype(np.int32)


def batches_of(rows: Batch, first: int) -> Iterator[Batch]:
    """Yield batches without end, each epoch in another order, from a step on."""
    x, y = rows
    starts = range(0, len(x) - ROWS + 1, ROWS)
    epoch, skipped = divmod(first, len(starts))
    while True:
        order = np.random.default_rng([0, epoch]).permutation(len(x))
        for start in starts[skipped:]:
            chosen = order[start : start + ROWS]
            yield x[chosen], y[chosen]
        epoch, skipped = epoch + 1, 0


def init_state() -> State:
    """Return the state before step 0."""
    random = np.random.default_rng(0)
    params = {
        "in": jnp.asarray(0.3 * random.standard_normal((FEATURES, WIDTH)), jnp.float32),
        "scale": jnp.ones(WIDTH),
        "out": jnp.asarray(0.3 * random.standard_normal((WIDTH, PADDED)), jnp.float32),
    }
    stats = {"mean": jnp.zeros(WIDTH), "variance": jnp.ones(WIDTH)}
    return {"params": params, "stats": stats, "opt_state": optimizer.init(params), "time": jnp.float32(0.0)}


def classify(params: State, stats: State, x: jax.Array, *, training: bool) -> tuple[jax.Array, State]:
    """Return logits, and the running statistics after the batch."""
    x = x @ params["in"]
    mean, variance = stats["mean"], stats["variance"]
    if training:
        mean, variance = jnp.mean(x, axis=0), jnp.var(x, axis=0)
        stats = {
            "mean": 0.9 * stats["mean"] + 0.1 * mean,
            "variance": 0.9 * stats["variance"] + 0.1 * variance,
        }
    x = jax.nn.relu((x - mean) * jax.lax.rsqrt(variance + 1e-5) * params["scale"])
    return jnp.where(REAL > 0, x @ params["out"], -1e9), stats


def loss_of(params: State, stats: State, x: jax.Array, y: jax.Array) -> tuple[jax.Array, State]:
    """Return the mean loss of smoothed labels, and the running statistics."""
    logits, stats = classify(params, stats, x, training=True)
    smoothed = 0.9 * jax.nn.one_hot(y, PADDED) + 0.1 * REAL / CLASSES
    return jnp.mean(-jnp.sum(smoothed * jax.nn.log_softmax(logits) * REAL, axis=-1)), stats


@jax.jit
def train_step(state: State, x: jax.Array, y: jax.Array, rate: float) -> tuple[State, jax.Array]:
    """Return the state after a step, and its loss."""
    (loss, stats), gradients = jax.value_and_grad(loss_of, has_aux=True)(state["params"], state["stats"], x, y)
    updates, opt_state = optimizer.update(gradients, state["opt_state"], state["params"])
    params = jax.tree.map(lambda old, update: old + rate * update, state["params"], updates)
    return {"params": params, "stats": stats, "opt_state": opt_state, "time": state["time"] + jnp.float32(0.5)}, loss


@jax.jit
def count_right(state: State, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the number of rows whose class is right."""
    logits, _ = classify(state["params"], state["stats"], x, training=False)
    return jnp.sum(jnp.argmax(logits, axis=-1) == y)


def evaluate(state: State, rows: Batch) -> float:
    """Return the share of all rows whose class is right."""
    x, y = rows
    missing = -len(x) % ROWS
    x, y = np.pad(x, ((0, missing), (0, 0))), np.pad(y, (0, missing), constant_values=-1)
    right = [count_right(state, x[n : n + ROWS], y[n : n + ROWS]) for n in range(0, len(x), ROWS)]
    return float(sum(right)) / (len(x) - missing)


def write(row: dict[str, float]) -> None:
    """Log a row."""
    print(json.dumps(row), flush=True)
    with (args.out / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def main() -> None:
    """Run the remaining steps."""
    manager, state, first = ocp.CheckpointManager(args.out.absolute() / "checkpoints"), init_state(), 0
    if (latest := manager.latest_step()) is not None:
        state = manager.restore(latest, args=ocp.args.StandardRestore(state))
        first = latest + 1
    batches, test, global_step = batches_of(make_rows(72, seed=1), first), make_rows(40, seed=2), first
    losses: list[jax.Array] = []
    for step in range(first, args.steps):
        x, y = next(batches)
        state, loss = train_step(state, x, y, args.lr * min(1.0, (global_step + 1) / 8))
        global_step += 1
        losses.append(loss)
        if step % 6 == 5:
            for before, value in enumerate(jax.device_get(losses)):
                write({"step": step + 1 - len(losses) + before, "loss": float(value)})
            losses = []
        if step % 12 == 11:
            write({"step": step, "eval_accuracy": evaluate(state, test)})
        if step in (0, args.steps - 1):
            manager.save(step, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()


main()
