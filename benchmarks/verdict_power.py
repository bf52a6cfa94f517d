"""Turns drawn logs of equal and of changed runs into how often the verdict is right, beside the rules of others.

    python -m benchmarks.verdict_power [--trials 300] [--only seeds] [--real noise.parquet]

Every trial draws the runs of both arms as a log prints them (milliseconds, and Tokens/s to three decimals), puts a
change into the candidate, and asks `tasks.diff` for the word of the step time. `different` without a change is a false
alarm. The peers see the same steps: Mann–Whitney at 1 % with our least effect, asv's rule (a factor of 1.1 and
p < 0.002), the threshold of rustc-perf (the fence of what the history's pairs differed by), and Welch's t at 1 %.
`--real`: runs of `benchmarks.noise_collect`, drawn again in blocks of their own steps.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from math import log
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from configs.comparison import load_effects, load_tolerances
from configs.noise import DeviceKind, load_noises
from configs.schema import Frozen
from configs.verdict_rules import make_rules
from tasks.diff.arms import ArmRuns
from tasks.diff.levels import find_levels
from tasks.diff.noise import Past
from tasks.diff.time_rows import QUICK, STEP_TIME, Circumstances, step_time_row
from tasks.records import STEP_SCHEMA, Environment, RunReading, RunRecord

type Values = NDArray[np.float64]
type Rng = np.random.Generator
type Draw = Callable[[Rng, int, int], Values]  # runs, steps -> seconds, without the first step

RULES = make_rules("Same?", load_tolerances("default"), load_effects())
DEVICES: dict[DeviceKind, str] = {"tpu": "TPU v6 lite", "gpu": "NVIDIA H100", "cpu": "cpu"}
TOKENS = 2048
MONDAY = datetime(2026, 11, 16, 8, tzinfo=UTC)
BLOCK = 10
HISTORIES = 12  # of a cell, shared by its trials
# the seeds' steps 1 to 9 over their steady step; 0: a steady one
SEEDS = ((19.8, 0.49, 11.7, 0, 0, 2.02, 137, 0, 0), (41, 6.07, 0.116, 0, 0, 0, 133, 0.09, 0),
         (10.3, 2.79, 0.065, 0, 0, 158, 0.044, 0, 0), (5.07, 0.138, 1.8, 0, 0, 2.0, 120, 0, 0))  # fmt: skip


class Cell(Frozen):
    """What is drawn: a regime on a kind of device, runs of each arm, steps of each, and the changes put in."""

    regime: str
    device: DeviceKind
    runs: int
    steps: int
    changes: tuple[float, ...]


def draw_tpu(rng: Rng, runs: int, steps: int) -> Values:
    """Runs scatter by 0.2 %, steps by 0.1 %; one step in fifty stalls."""
    seconds = 0.25 * np.exp(rng.normal(0, 0.002, (runs, 1)) + rng.normal(0, 0.001, (runs, steps)))
    return seconds * np.where(rng.random((runs, steps)) < 0.02, rng.uniform(5, 60, (runs, steps)), 1)


def draw_gpu(rng: Rng, runs: int, steps: int) -> Values:
    """Runs scatter by 1 %, and grow up to 2 % slower as the device warms up."""
    warm = rng.uniform(0, 0.02, (runs, 1)) * (1 - np.exp(-np.arange(steps) / 30))
    return 0.4 * np.exp(rng.normal(0, 0.01, (runs, 1)) + warm + rng.normal(0, 0.005, (runs, steps)))


def draw_laptop(rng: Rng, runs: int, steps: int) -> Values:
    """Runs scatter by 5 %, steps by more, and bursts of other work make stretches of steps half as long again."""
    busy, slow = rng.random(runs) < 0.2, np.empty((runs, steps), dtype=bool)
    for step in range(steps):
        busy = np.where(busy, rng.random(runs) > 0.15, rng.random(runs) < 0.04)
        slow[:, step] = busy
    short = np.abs(rng.normal(0, 0.1, (runs, steps))) * (rng.random((runs, steps)) < 0.3)
    return 0.05 * np.exp(rng.normal(0, 0.05, (runs, 1)) + rng.normal(0, 0.03, (runs, steps)) + short) * (1 + slow / 2)


def draw_harsh(rng: Rng, runs: int, steps: int) -> Values:
    """The same machine when nothing is steady: runs scatter by 15 % each."""
    return draw_laptop(rng, runs, steps) * np.exp(rng.normal(0, 0.15, (runs, 1)))


def draw_seeds(rng: Rng, runs: int, steps: int) -> Values:
    """The founding logs: 0.0706 s to 0.255 %, four or five steady steps of nine between waits and artefacts."""
    pattern = np.array(SEEDS)[rng.integers(0, len(SEEDS), runs), :steps]
    base = 0.0706 * np.exp(rng.normal(0, 0.00255, (runs, 1)))
    jitter = np.abs(rng.normal(0, 0.03, pattern.shape)) * (rng.random(pattern.shape) < 0.5)
    steady = base * np.exp(jitter + rng.normal(0, 0.003, pattern.shape))
    return np.where(pattern == 0, steady, base * pattern * np.exp(rng.normal(0, 0.2, pattern.shape)))


def draw_again(path: Path) -> Draw:
    """Neighbouring real runs, each with blocks of its own steps drawn again."""
    table = pl.read_parquet(path).sort("run", "step")
    clock = table[STEP_TIME.name].to_numpy().reshape(table["run"].n_unique(), -1)[:, 1:]

    def draw(rng: Rng, runs: int, steps: int) -> Values:
        first = int(rng.integers(0, len(clock) - runs + 1))
        starts = rng.integers(0, clock.shape[1], (runs, -(-steps // BLOCK), 1))
        index = ((starts + np.arange(BLOCK)) % clock.shape[1]).reshape(runs, -1)[:, :steps]
        return np.take_along_axis(clock[first : first + runs], index, axis=1)

    return draw


REGIMES: dict[str, Draw] = {
    "tpu": draw_tpu, "gpu": draw_gpu, "laptop": draw_laptop, "harsh": draw_harsh, "seeds": draw_seeds,
}  # fmt: skip
CELLS = (
    Cell(regime="tpu", device="tpu", runs=1, steps=10, changes=(0.05,)),
    Cell(regime="tpu", device="tpu", runs=1, steps=50, changes=(0.02, 0.05)),
    Cell(regime="tpu", device="tpu", runs=3, steps=50, changes=(0.02,)),
    Cell(regime="tpu", device="tpu", runs=10, steps=200, changes=(0.02,)),
    *(Cell(regime="seeds", device="tpu", runs=runs, steps=9, changes=(0.05,)) for runs in (1, 3, 5, 10)),
    *(Cell(regime="gpu", device="gpu", runs=runs, steps=50, changes=(0.05,)) for runs in (1, 3, 5, 10)),
    *(Cell(regime="laptop", device="cpu", runs=runs, steps=50, changes=(0.05, 0.3)) for runs in (1, 3, 5, 10)),
    *(Cell(regime="harsh", device="cpu", runs=runs, steps=50, changes=(0.05, 0.3)) for runs in (1, 3, 10)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--only", choices=(*REGIMES, "real"))
    parser.add_argument("--real", type=Path)
    arguments = parser.parse_args()
    print(describe_machine(("numpy", "scipy", "polars")))
    cells: Sequence[Cell] = CELLS
    if arguments.real:
        REGIMES["real"] = draw_again(arguments.real)
        cells = [
            *cells,
            *(Cell(regime="real", device="cpu", runs=r, steps=48, changes=(0.05, 0.3)) for r in (1, 3, 5, 10)),
        ]
    print("regime runs×steps history apart change | different same unknown | peers: different (MW asv rustc t)")
    for cell in cells:
        if arguments.only in (None, cell.regime):
            for pairs, apart in ((0, False), (8, False), (40, False), (0, True)):
                for line in judge_cell(cell, pairs, apart=apart, trials=arguments.trials):
                    print(
                        f"{cell.regime:7}{cell.runs:3}×{cell.steps:<4}{pairs:3} {'days' if apart else 'hour'} {line}",
                        flush=True,
                    )


def judge_cell(cell: Cell, pairs: int, *, apart: bool, trials: int) -> Iterator[str]:
    """One line per change: none first."""
    draw, rng = REGIMES[cell.regime], np.random.default_rng([cell.runs, cell.steps, pairs, apart])
    histories = [draw_past(draw(rng, 2 * pairs, cell.steps)) for _ in range(HISTORIES if pairs else 1)]
    for change in (0.0, *cell.changes):
        ours: Counter[str] = Counter()
        theirs: Counter[str] = Counter()
        for trial in range(trials):
            seconds = draw(rng, 2 * cell.runs, cell.steps)
            sides = seconds[::2], seconds[1::2] * (1 + change)
            if apart:
                sides = sides[0], sides[1] * np.exp(rng.normal(0, load_noises()[cell.device].days_apart))
            past = histories[trial % len(histories)]
            ours[judge(cell.device, sides, past, apart=apart)] += 1
            theirs.update(judge_like_others(sides, past, load_noises()[cell.device].least))
        different = ours["regressed"] + ours["improved"]
        counts = (different, ours["same"], ours["unknown"], *(theirs[name] for name in ("mw", "asv", "rustc", "t")))
        yield f"{change:+5.0%} |" + "".join(f"{100 * count / trials:7.1f}" for count in counts)


def draw_past(seconds: Values) -> dict[str, Past]:
    """What a history would hold of these runs, two by two."""
    found = [find_levels(run) for run in seconds]
    pairs = [(a, b) for a, b in zip(found[::2], found[1::2], strict=True) if a and b]
    past = {}
    for name, level in ((QUICK[STEP_TIME.name], "quick"), (STEP_TIME.name, "middle")):
        differences = tuple(log(getattr(b, level).seconds / getattr(a, level).seconds) for a, b in pairs)
        past[name] = Past(differences=differences, source="past")
    return past if pairs else {}


def judge(device: DeviceKind, sides: tuple[Values, Values], past: dict[str, Past], *, apart: bool) -> str:
    """Our word."""
    arms = []
    for index, (name, side) in enumerate(zip(("a", "b"), sides, strict=True)):
        start = MONDAY + timedelta(minutes=5 * index, days=index if apart else 0)
        runs = tuple(make_run(name, device, run, start + timedelta(minutes=10 * n)) for n, run in enumerate(side))
        arms.append(ArmRuns(name=name, label=name, runs=runs))
    return step_time_row((arms[0], arms[1]), RULES, given=Circumstances(past=past))[1].verdict


def make_run(arm: str, device: DeviceKind, seconds: Values, start: datetime) -> RunRecord:
    """A run as its log prints it, its first step waiting for the compiler."""
    every = np.concatenate([[20.0], seconds])
    count = len(every)
    steps = pl.DataFrame(
        {
            "step": range(count), "seconds": np.round(every, 3), "tokens_per_s_per_device": np.round(TOKENS / every, 3),
            "loss": np.full(count, 8.0), "line": range(count), "offset": range(count),
        },
        schema_overrides={key: kind for key, kind in STEP_SCHEMA.items() if key != "time"},
    )  # fmt: skip
    reading = RunReading(
        name=arm, format="maxtext", exit_code=0, steps=steps, started=start.isoformat(),
        ended=(start + timedelta(minutes=4)).isoformat(), environment=Environment(device_kind=DEVICES[device]),
    )  # fmt: skip
    return RunRecord(plan=None, arm=arm, label=arm, commit=None, log=f"/{arm}/log.txt", reading=reading)


def judge_like_others(sides: tuple[Values, Values], past: dict[str, Past], least: float) -> Iterator[str]:
    """The names of those who would call the arms different."""
    pooled = [side.ravel() for side in sides]
    ratio = float(np.median(pooled[1]) / np.median(pooled[0]))
    p = float(stats.mannwhitneyu(*pooled).pvalue)
    if p < 0.01 and abs(ratio - 1) >= least:
        yield "mw"
    if p < 0.002 and not 1 / 1.1 <= ratio <= 1.1:
        yield "asv"
    changes = np.abs(past[STEP_TIME.name].differences) if past else np.array([])
    low, high = np.quantile(changes, (0.25, 0.75)) if changes.size else (0.002, 0.002)
    if abs(log(ratio)) > high + 3 * (high - low):
        yield "rustc"
    levels = [np.median(side, axis=1) for side in sides] if len(sides[0]) > 1 else pooled
    if float(stats.ttest_ind(*levels, equal_var=False).pvalue) < 0.01:
        yield "t"


if __name__ == "__main__":
    main()
