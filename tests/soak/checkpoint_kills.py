"""Kills trainers' saves at random moments, and prints what is said of what they left, and where a run goes on.

    python -m tests.soak.checkpoint_kills [--kills 50] [--megabytes 32]

On a disk and in a bucket (the tests' server on loopback), so many times each: a process saves steps 0 and 1 with the
trainer's own manager, and gets SIGKILL at a random moment of the second save. What is left is verified; then another
process opens the run as the trainer does, restores the newest step, and saves step 1 if that is not it. Right is: step
0 is whole; step 1 is called whole exactly if the run goes on from it, and unfinished or absent if not; every value that
comes back was saved; and after the second save both steps are whole. Exit status: 0 all right, else 1.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from benchmarks.machine import describe_machine
from tests.soak.checkpoint_damage import bucket

ARRAYS = 16
LATER = 1.3  # kills come up to so many times an undisturbed save


class Resumed(NamedTuple):
    """Where a run went on, and whether every value was the saved one."""

    step: int
    equal: bool


def make_state(step: int, megabytes: int) -> dict[str, Any]:
    """Arrays of noise, which does not compress, as in a real state."""
    size = megabytes * 2**20 // 4 // ARRAYS
    return {
        f"layer_{number}": np.random.default_rng([step, number]).random(size, dtype=np.float32)
        for number in range(ARRAYS)
    }


def open_manager(run: str) -> Any:
    from etils import epath

    from configs.load import load_train_config
    from configs.read import CONFIG_ROOT
    from model.train import checkpoint

    config = load_train_config(CONFIG_ROOT / "cases" / "01_base.yml", ["checkpoint_period=1"])
    return checkpoint, config, checkpoint.make_manager(config, checkpoint.checkpoint_directory(epath.Path(run)))


def save_both(run: str, megabytes: int, told: Connection) -> None:
    """In a process of its own: step 0, then a word, then step 1, then how long that took."""
    import jax

    checkpoint, config, manager = open_manager(run)
    states = [jax.tree.map(jax.numpy.asarray, make_state(step, megabytes)) for step in (0, 1)]
    checkpoint.save(config, manager, 0, states[0], force=True)
    manager.wait_until_finished()
    told.send(0.0)
    began = time.monotonic()
    checkpoint.save(config, manager, 1, states[1], force=True)
    manager.wait_until_finished()
    told.send(time.monotonic() - began)
    manager.close()


def go_on(run: str, megabytes: int, told: Connection) -> None:
    """In a process of its own, as the trainer does at its start."""
    import jax

    checkpoint, config, manager = open_manager(run)
    step = manager.latest_step()
    states = [jax.tree.map(jax.numpy.asarray, make_state(number, megabytes)) for number in (0, 1)]
    restored = checkpoint.restore(manager, step, states[step])
    equal = all(np.array_equal(restored[name], states[step][name]) for name in states[step])
    if step == 0:
        checkpoint.save(config, manager, 1, states[1], force=True)
    manager.wait_until_finished()
    manager.close()
    told.send(Resumed(step, equal))


def find_whole(run: str) -> dict[int, bool]:
    """Of every step that has its final name, whether it is called whole."""
    from tasks.verify.checkpoint import verify_checkpoints

    return {proof.step: proof.ok for proof in verify_checkpoints(run, deep=True) if proof.step is not None}


def kill_once(run: str, megabytes: int, delay: float | None, context: Any) -> tuple[str, float]:
    """What became of one save; and how long it took where no delay is given and nothing is killed."""
    here, there = context.Pipe()
    saver = context.Process(target=save_both, args=(run, megabytes, there))
    saver.start()
    there.close()  # so that an end without a word is noticed
    here.recv()
    if delay is None:
        seconds = here.recv()
        saver.join()
        return "", seconds
    time.sleep(delay)
    saver.kill()
    saver.join()
    whole = find_whole(run)
    here, there = context.Pipe()
    trainer = context.Process(target=go_on, args=(run, megabytes, there))
    trainer.start()
    there.close()
    resumed = here.recv()
    trainer.join()
    newest = max(step for step, ok in whole.items() if ok)
    right = whole[0] and newest == resumed.step and resumed.equal and find_whole(run) == {0: True, 1: True}
    state = {None: "step 1 absent", False: "step 1 unfinished", True: "step 1 whole"}[whole.get(1)]
    return f"{state}, {'right' if right else f'WRONG ({whole}, {resumed})'}", 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=32)
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    print(describe_machine(("orbax-checkpoint", "tensorstore", "jax")))
    rng, all_right = np.random.default_rng(0), True
    with tempfile.TemporaryDirectory() as folder, bucket() as address:
        # a process is forked from one that has loaded the libraries, and has the bucket's environment
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["model.train.checkpoint", "configs.load"])
        for place in (folder, address):
            _, seconds = kill_once(f"{place}/undisturbed", given.megabytes, None, context)
            print(f"{place}: a save of {given.megabytes} MiB takes {seconds:.2f} s; {given.kills} killed", flush=True)
            found: Counter[str] = Counter()
            for number in range(given.kills):
                delay = float(rng.uniform(0, LATER * seconds))
                found[kill_once(f"{place}/{number}", given.megabytes, delay, context)[0]] += 1
                print(f"  {number + 1} of {given.kills}", end="\r", file=sys.stderr, flush=True)
            for text, count in sorted(found.items()):
                print(f"  {count:3} × {text}", flush=True)
            all_right &= not any("WRONG" in text for text in found)
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
