"""Measures how long a save blocks the training loop: ours and Orbax's own, of one state, in turn, in one process.

    python -m benchmarks.checkpoint_hold

Each pair is one asynchronous save of each into its own folder, in alternating order. Only the call is timed; the
background writing is awaited outside. Orbax's synchronous save is shown too. Exit status: 0 if no interval of the ratio
lies above the target, 1 if one does.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.linen_vs_nnx import Arm
from benchmarks.machine import describe_machine
from benchmarks.pairs import find_ratio
from benchmarks.trainer_vs_maxtext import ENVIRONMENT

TARGET = 1.05
WARM = 2  # saves of each before any counts


def make_savers(arm: Arm, folder: Path) -> dict[str, Callable[[int], float]]:
    """Return by name the functions that save the state of a step and return the seconds that they blocked."""
    import orbax.checkpoint as ocp
    from etils import epath

    from model.train import checkpoint

    config = arm.config.model_copy(update={"enable_checkpointing": True, "checkpoint_period": 1})
    tree = arm.api.to_tree(arm.state)

    def timed(manager: ocp.CheckpointManager, save: Callable[[int], object]) -> Callable[[int], float]:
        def run(step: int) -> float:
            started = time.perf_counter()
            save(step)
            held = time.perf_counter() - started
            manager.wait_until_finished()
            return held

        return run

    def orbax(name: str, *, asynchronous: bool) -> Callable[[int], float]:
        options = ocp.CheckpointManagerOptions(enable_async_checkpointing=asynchronous, max_to_keep=2)
        manager = ocp.CheckpointManager(folder / name, options=options)
        return timed(manager, lambda step: manager.save(step, args=ocp.args.PyTreeSave(tree)))

    ours = checkpoint.make_manager(config, epath.Path(folder / "ours"))
    return {
        "ours": timed(ours, lambda step: checkpoint.save(config, ours, step, arm.api.to_tree(arm.state))),
        "Orbax": orbax("orbax", asynchronous=True),
        "Orbax, synchronous": orbax("synchronous", asynchronous=False),
    }


def measure(api: str, saves: int) -> bool:
    """Print the blocking times of one API's state; return whether the target may be met."""
    arm = Arm("f32", nnx=api == "nnx")
    arm.step()
    with tempfile.TemporaryDirectory() as folder:
        savers = make_savers(arm, Path(folder))
        held: dict[str, list[float]] = {name: [] for name in savers}
        for step in range(WARM + saves):
            for name in list(savers)[:: 1 if step % 2 else -1]:
                held[name].append(savers[name](step))
    counted = {name: times[WARM:] for name, times in held.items()}
    ratio = find_ratio(counted["ours"], counted["Orbax"])
    shown = "  ".join(f"{name} {1000 * statistics.median(times):.1f} ms" for name, times in counted.items())
    print(f"{api:5} {shown}  ours over Orbax's {ratio.judge(TARGET)}", flush=True)
    return ratio.least <= TARGET


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=30)
    arguments = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    print(describe_machine(), flush=True)
    met = [measure(api, arguments.saves) for api in ("linen", "nnx")]  # both are shown
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
