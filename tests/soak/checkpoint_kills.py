"""Kills trainers' saves at random moments, and prints the verification of the remains and the step of resumption.

    python -m tests.soak.checkpoint_kills [--kills 50] [--megabytes 32]

Repeats on a disk and in a bucket (the tests' server on loopback): a process saves steps 0 and 1 with the trainer's own
manager, and gets SIGKILL at a random moment of the second save. The remains are verified; then another process opens
the run as the trainer does, restores the newest step, and saves step 1 if it is missing. Required: step 0 is whole;
step 1 is reported whole exactly if the run resumes from it, else unfinished or absent; every restored value was saved;
and after the second save both steps are whole. Exit status: 0 if all hold, else 1.
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
LATER = 1.3  # latest kill, as a multiple of an undisturbed save's time


class Resumed(NamedTuple):
    """A resumed run: its step, and whether every value equals the saved one."""

    step: int
    equal: bool


def make_state(step: int, megabytes: int) -> dict[str, Any]:
    """Return arrays of noise, which does not compress, like a real state."""
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


def save_both(run: str, megabytes: int, reported: Connection) -> None:
    """In a child process: save step 0, send a message, save step 1, send its seconds."""
    import jax

    checkpoint, config, manager = open_manager(run)
    states = [jax.tree.map(jax.numpy.asarray, make_state(step, megabytes)) for step in (0, 1)]
    checkpoint.save(config, manager, 0, states[0], force=True)
    manager.wait_until_finished()
    reported.send(0.0)
    began = time.monotonic()
    checkpoint.save(config, manager, 1, states[1], force=True)
    manager.wait_until_finished()
    reported.send(time.monotonic() - began)
    manager.close()


def go_on(run: str, megabytes: int, reported: Connection) -> None:
    """In a child process: resume the run as the trainer does at its start."""
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
    reported.send(Resumed(step, equal))


def find_whole(run: str) -> dict[int, bool]:
    """Return for every step with its final name whether verification reports it whole."""
    from tasks.verify.verification import verify_checkpoints

    return {proof.step: proof.ok for proof in verify_checkpoints(run, deep=True) if proof.step is not None}


def kill_once(run: str, megabytes: int, delay: float | None, context: Any) -> tuple[str, float]:
    """Return the outcome of one save as text; and its seconds if `delay` is None, which kills nothing."""
    here, there = context.Pipe()
    saver = context.Process(target=save_both, args=(run, megabytes, there))
    saver.start()
    there.close()  # so that a silent end is noticed
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
        # children are forked from a process with loaded libraries and the bucket's environment
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
