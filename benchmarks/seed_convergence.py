"""Counts false alarms and detections of the verdict on convergence on seeds of real systems, and of other rules.

    nice python -m benchmarks.seed_convergence FOLDER [--trials 4]

FOLDER holds `*evaluations.csv.gz`: evaluation losses after so many samples, ten seeds a system. A trial splits the
seeds of one system at random into five and five. A change raises every loss of the candidate, or stretches its samples.

Beside our word: MLPerf's test of reference convergence points, applied to the candidate (the slowest and the fastest
seed of each side are pruned; one-sided t-test of the samples to the target at 5 %), and Megatron-Bridge's pointwise
tolerance (any loss that is 10 % away from the reference's mean at the same samples).
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from tasks.diff.judge.convergence import ConvergenceError, common_positions, judge_convergence, position_of, values_at
from tasks.records.convergence import LossCurve

TARGETS = {"flux1": 0.586, "llama2_70b_lora": 0.925, "llama31_8b": 3.3}  # evaluation losses at which MLPerf's runs stop
SEEDS = 5
# name of a change → factors of the losses and of the samples
CHANGES = {"A/A": (1.0, 1.0), "loss +0.5 %": (1.005, 1.0), "loss +1 %": (1.01, 1.0),
           "10 % later": (1.0, 1.1), "20 % later": (1.0, 1.2)}  # fmt: skip
POINTWISE = 0.10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=4, help="random splits of each system's seeds")
    arguments = parser.parse_args()
    print(describe_machine(("numpy", "scipy", "polars")))
    systems = list(read_systems(arguments.folder))
    for benchmark, target in TARGETS.items():
        chosen = [runs for name, runs in systems if name == benchmark]
        for change, (high, late) in CHANGES.items():
            words = [
                judge(runs, order, target, high, late)
                for seed, runs in enumerate(chosen)
                for order in orders(len(runs), arguments.trials, seed)
            ]
            cells = " ".join(
                f"{name} {show([word[n] for word in words])}" for n, name in enumerate(("ours", "MLPerf's", "10 %"))
            )
            print(f"{benchmark} ({len(chosen)} systems) {change}: {cells}", flush=True)


def read_systems(folder: Path) -> Iterator[tuple[str, list[LossCurve]]]:
    """Yield the benchmark and the curves of each system with ten seeds or more that reached the target."""
    for path in sorted(folder.glob("*evaluations.csv.gz")):
        table = pl.read_csv(path).filter(pl.col("status") == "success")
        for key, rows in table.group_by(["organisation", "system", "benchmark"], maintain_order=True):
            runs = [
                LossCurve(name=f"run {number[0]}", positions=tuple(run["samples"]), losses=tuple(run["value"]))
                for number, run in rows.sort("samples").group_by("run", maintain_order=True)
            ]
            if str(key[2]) in TARGETS and len(runs) >= 2 * SEEDS:
                yield str(key[2]), runs


def orders(count: int, trials: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.permutation(count) for _ in range(trials)]


def judge(
    runs: Sequence[LossCurve], order: np.ndarray, target: float, high: float, late: float
) -> tuple[bool, bool, bool]:
    """Return whether our word, MLPerf's test and the pointwise tolerance find the candidate worse (A/A: different)."""
    reference, drawn = ([runs[n] for n in part] for part in (order[:SEEDS], order[SEEDS : 2 * SEEDS]))
    candidate = [
        LossCurve(
            name=run.name,
            positions=tuple(late * at for at in run.positions),
            losses=tuple(high * y for y in run.losses),
        )
        for run in drawn
    ]
    try:
        word = judge_convergence(reference, candidate, target=target).verdict
        grid = common_positions(reference, candidate)
    except ConvergenceError:
        return False, False, False
    different = ("regressed", "improved") if high == late == 1 else ("regressed",)
    left, right = values_at(reference, grid).mean(axis=0), values_at(candidate, grid)
    return word in different, is_slower(reference, candidate, target), bool((abs(right / left - 1) > POINTWISE).any())


def is_slower(reference: Sequence[LossCurve], candidate: Sequence[LossCurve], target: float) -> bool:
    """Return whether the candidate's pruned seeds need more samples to the target, as in MLPerf's reference check."""
    sides = [sorted(at for run in side if (at := position_of(run, target))) for side in (reference, candidate)]
    if len(sides[1]) < len(candidate):
        return True
    left, right = (side[1:-1] for side in sides)
    return len(left) > 1 and bool(stats.ttest_ind(right, left, alternative="greater").pvalue < 0.05)


def show(found: Sequence[bool]) -> str:
    """Return the percentage and its exact 95 % interval."""
    low, high = stats.binomtest(sum(found), len(found)).proportion_ci(method="exact")
    return f"{100 * sum(found) / len(found):.1f} % ({100 * low:.1f}–{100 * high:.1f})"


if __name__ == "__main__":
    main()
