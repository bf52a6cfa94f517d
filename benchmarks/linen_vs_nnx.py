"""Calls the compiled training steps of Linen and NNX in turn, in one process, and prints NNX's time over Linen's.

    python -m benchmarks.linen_vs_nnx

Whole runs of one program differ by several percent and cannot resolve 2 %. Here both steps share the machine's state:
each pair contains one step of Linen and one of NNX, in alternating order. Exit status: 0 if no interval of the ratio
lies above the target, 1 if one does.
"""

import argparse
import os
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats  # type: ignore[import-untyped]  # its stubs are in another package

from benchmarks.machine import describe_machine
from benchmarks.trainer_vs_maxtext import ENVIRONMENT, NUMBERS, SHARED

TARGET = 1.02
WARM = 3  # calls of each step before the measurement, which fill caches and allocators


class Ratio(NamedTuple):
    """The median of the ratios of pairs, with its 95 % interval."""

    median: float
    least: float
    most: float

    def judge(self, target: float) -> str:
        """Return the ratio as text, and whether it meets the target within its interval."""
        met = "met" if self.most <= target else "NOT MET" if self.least > target else "not decided: take more"
        return f"{self.median:.3f} ({self.least:.3f} to {self.most:.3f})  ≤ {target}: {met}"


def find_ratio(ours: ArrayLike, theirs: ArrayLike) -> Ratio:
    """Return the ratio ours / theirs of times measured in pairs, by order statistics, which assume no distribution."""
    ratios = np.sort(np.divide(ours, theirs))
    # The rank at which the interval begins. Fewer ratios lie below the true median with a probability under 2.5 %.
    below = max(int(stats.binom.ppf(0.025, len(ratios), 0.5)), 1)
    return Ratio(float(np.median(ratios)), float(ratios[below - 1]), float(ratios[-below]))


class Arm:
    """One API's compiled step with its state."""

    def __init__(self, numbers: str, *, nnx: bool) -> None:
        # imported late, because JAX chooses its backend at its import
        from configs.load import CONFIG_ROOT, load_train_config
        from model.decoder.sharding import make_mesh
        from model.train.api import make_api
        from model.train.data_source import make_source
        from model.train.step import declare_state, init_state, lower_step, make_program

        keys = SHARED | NUMBERS[numbers] | {"pure_nnx": nnx, "run_name": "x", "base_output_directory": "x"}
        words = [f"{key}={value}" for key, value in keys.items()]
        config = load_train_config(CONFIG_ROOT / "cases" / "01_base.yml", words)
        self.config, self.api = config, make_api(config)
        mesh, api = make_mesh(config), self.api
        setup = declare_state(config, api, mesh)
        self.program = make_program(setup, lower_step(setup))
        self.state: Any = init_state(setup)
        self.batch = make_source(config, mesh).next()

    def step(self) -> tuple[float, float]:
        """Run one step; return its wall seconds and processor seconds."""
        import jax

        wall, cpu = time.perf_counter(), time.process_time()
        self.state, metrics = self.program.run(self.state, self.batch)
        jax.block_until_ready((self.state, metrics))
        return time.perf_counter() - wall, time.process_time() - cpu


def measure(numbers: str, pairs: int) -> bool:
    """Print NNX's wall and CPU time over Linen's for one type of activations; return whether TARGET may be met."""
    arms = [Arm(numbers, nnx=False), Arm(numbers, nnx=True)]
    same = arms[0].program.stablehlo_sha256 == arms[1].program.stablehlo_sha256
    print(f"{numbers}: {'one program' if same else 'DIFFERENT programs'} in both APIs")
    for arm in arms * WARM:
        arm.step()
    taken = np.empty((pairs, 2, 2))  # pair, api, clock
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 else (1, 0):
            taken[pair, side] = arms[side].step()
    met = True
    for clock, name in enumerate(("step", "… of processor time")):
        ratio = find_ratio(taken[:, 1, clock], taken[:, 0, clock])
        linen, nnx = np.median(taken[:, :, clock], axis=0)
        judged = ratio.judge(TARGET)
        print(f"{numbers:5} {name:22} linen {linen:8.4f} s  nnx {nnx:8.4f} s  ratio {judged}", flush=True)
        met &= ratio.least <= TARGET
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--numbers", nargs="+", choices=NUMBERS, default=list(NUMBERS))
    arguments = parser.parse_args()
    os.environ |= ENVIRONMENT
    print(describe_machine(), f"{arguments.pairs} pairs", sep="\n")
    met = [measure(numbers, arguments.pairs) for numbers in arguments.numbers]  # a list, so that all are shown
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
