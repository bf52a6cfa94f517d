"""Saves real Orbax checkpoints the way MaxText does: `saver.py FOLDER [--steps 0 9] [--layout ocdbt-zarr3] …`.

`saver.py FOLDER … , FOLDER …` saves several, one after the other.
"""

import argparse
import asyncio
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint._src.path import atomicity

POINTS = ("while-writing", "before-item-commit", "before-step-commit")


def make_tree(step: int, size: int, nan: bool) -> dict[str, Any]:
    """Ten leaves with data; the kernels are on two devices, in chunks of two files."""
    mesh = Mesh(np.array(jax.devices()), ("fsdp",))
    over_fsdp = NamedSharding(mesh, PartitionSpec("fsdp"))
    key = jax.random.key(step)
    kernels = {
        f"layer_{i}": {
            "kernel": jax.device_put(jax.random.normal(jax.random.fold_in(key, i), (2 * size, 64)), over_fsdp)
        }
        for i in range(3)
    }
    mu = jax.random.normal(key, (size, 64)).astype(jnp.bfloat16)
    if nan:
        mu = mu.at[3, 5].set(jnp.nan).at[4, 0].set(-jnp.inf)
    return {
        "params": {"params": {"decoder": kernels, "token_embedder": {"embedding": jnp.ones((7, 5))}}},
        "opt_state": [{"mu": mu, "count": jnp.int32(step), "empty": {}}, None],
        "zeros": jnp.zeros((32, 32)),
        "numpy": np.arange(6).reshape(2, 3),
        "scalar": 0.5,
        "step": jnp.int32(step),
    }


def die() -> None:
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_next_save(point: str, folder: Path, step: int) -> None:
    """Make this process kill itself at a point of the next save."""
    if point == "while-writing":
        import threading

        def watch() -> None:
            while True:
                if any(path.stat().st_size for path in folder.glob(f"{step}*/items*/ocdbt.process_0/d/*")):
                    die()
                time.sleep(0.0005)

        threading.Thread(target=watch, daemon=True).start()
    calls = [0]
    original = atomicity.AtomicRenameTemporaryPath.finalize

    async def finalize(self: Any) -> None:
        calls[0] += 1
        if point == "while-writing":
            await asyncio.sleep(600)  # the watching thread may be later than all of the writing
        if calls[0] == POINTS.index(point):
            await asyncio.to_thread(die)
        await original(self)

    atomicity.AtomicRenameTemporaryPath.finalize = finalize


def wait_until_seen(folder: Path, files: int) -> None:
    while len(list(folder.glob("*.json"))) < files:
        time.sleep(0.02)


def read_words(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, nargs="*", default=[0, 9])
    parser.add_argument("--layout", default="ocdbt-zarr3")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--keep", type=int)
    parser.add_argument("--nan", action="store_true")
    parser.add_argument("--chunk-bytes", type=int)
    parser.add_argument("--die-at", choices=POINTS)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--seen", type=Path, help="a folder that gets a file for each second step, or saving waits")
    parser.add_argument("--plain-checkpointer", action="store_true")
    return parser.parse_args(words)


def save(given: argparse.Namespace) -> None:
    if given.plain_checkpointer:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(given.folder, make_tree(given.steps[0], given.size, given.nan))
        return
    container, zarr = given.layout.split("-")
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=container == "ocdbt", use_zarr3=zarr == "zarr3")
    options = ocp.CheckpointManagerOptions(create=True, enable_async_checkpointing=True, max_to_keep=given.keep)
    with ocp.CheckpointManager(
        given.folder, item_names=("items",), item_handlers={"items": handler}, options=options
    ) as manager:
        for step in given.steps:
            tree = make_tree(step, given.size, given.nan)
            save_args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=given.chunk_bytes), tree)
            if given.die_at and step == given.steps[-1]:
                manager.wait_until_finished()
                die_at_next_save(given.die_at, given.folder, step)
            manager.save(step, args=ocp.args.Composite(items=ocp.args.PyTreeSave(tree, save_args=save_args)))
            time.sleep(given.pause)
            if given.seen and step % 2:
                wait_until_seen(given.seen, (step + 1) // 2)
        manager.wait_until_finished()


if __name__ == "__main__":
    for ours, sets in itertools.groupby(sys.argv[1:], lambda word: word != ","):
        if ours:
            save(read_words(list(sets)))
