"""Measures how often the verdict is right on simulated logs of equal and changed runs, beside other tools' rules.

    nice python -m benchmarks.verdict_power [--trials 300] [--only seeds] [--real LOGS]

A regime is a kind of machine with its noise. Each regime draws a pool of runs as a log prints them (milliseconds, and
Tokens/s to three decimals). Each trial chooses the runs of both arms from the pool, puts a change into the candidate,
and takes `tasks.diff`'s verdict on the step time. `different` without a change is a false alarm. Changes have half as
many trials. The peers judge the same steps:
Mann–Whitney at 1 % with our least effect, asv's rule (a factor of 1.1 and p < 0.002), rustc-perf's threshold (the fence
of the differences in the history), and Welch's t at 1 %. `--real`: a folder of logs of MaxText in the order of their
names, resampled in blocks of their own steps.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from configs.frozen import Frozen
from configs.verdict_rules import DeviceKind, load_effects, load_noises, load_tolerances, make_rules
from questions.history.prior import difference_of
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.circumstances import Circumstances
from tasks.diff.examine.noise import Past
from tasks.diff.judge.time_rows import decide_levels
from tasks.metrics.merged_steps import refine_seconds
from tasks.metrics.step_time_levels import find_levels
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.log_reading import STEP_SCHEMA, Environment, RunReading
from tasks.records.run import RunRecord
from tasks.records.run_facts import StepLevels
from tasks.scrape.read_log import scrape_run

type Values = NDArray[np.float64]
type Rng = np.random.Generator
type Draw = Callable[[Rng, int, int], Values]  # runs, steps -> seconds, without the first step

RULES = make_rules("Same?", load_tolerances("default"), load_effects())
DEVICES: dict[DeviceKind, str] = {"tpu": "TPU v6 lite", "gpu": "NVIDIA H100", "cpu": "cpu"}
TOKENS = 2048
MONDAY = datetime(2026, 11, 16, 8, tzinfo=UTC)
BLOCK = 10
PAIRS = (0, 8, 40)  # lengths of the history
HISTORIES = 60  # histories of a cell, shared by its trials
POOL = 1500  # runs of a regime's pool
# seconds of steps 1 to 9 of the seed logs, relative to a steady step; 0 stands for a steady step
SEEDS = ((19.8, 0.49, 11.7, 0, 0, 2.02, 137, 0, 0), (41, 6.07, 0.116, 0, 0, 0, 133, 0.09, 0),
         (10.3, 2.79, 0.065, 0, 0, 158, 0.044, 0, 0), (5.07, 0.138, 1.8, 0, 0, 2.0, 120, 0, 0))  # fmt: skip


class Cell(Frozen):
    """A simulated setting: a regime on a kind of device, runs per arm, steps per run, and the planted changes."""

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
    """Runs scatter by 1 %, and become up to 2 % slower as the device warms up."""
    warm = rng.uniform(0, 0.02, (runs, 1)) * (1 - np.exp(-np.arange(steps) / 30))
    return 0.4 * np.exp(rng.normal(0, 0.01, (runs, 1)) + warm + rng.normal(0, 0.005, (runs, steps)))


def draw_laptop(rng: Rng, runs: int, steps: int) -> Values:
    """Runs scatter by 5 %, steps by more, and bursts of other load make stretches of steps half as long again."""
    busy, slow = rng.random(runs) < 0.2, np.empty((runs, steps), dtype=bool)
    for step in range(steps):
        busy = np.where(busy, rng.random(runs) > 0.15, rng.random(runs) < 0.04)
        slow[:, step] = busy
    short = np.abs(rng.normal(0, 0.1, (runs, steps))) * (rng.random((runs, steps)) < 0.3)
    return 0.05 * np.exp(rng.normal(0, 0.05, (runs, 1)) + rng.normal(0, 0.03, (runs, steps)) + short) * (1 + slow / 2)


def draw_calm(rng: Rng, runs: int, steps: int) -> Values:
    """A machine without other load: runs scatter by 0.5 %, steps by 1 %."""
    return 0.1 * np.exp(rng.normal(0, 0.005, (runs, 1)) + rng.normal(0, 0.01, (runs, steps)))


def draw_harsh(rng: Rng, runs: int, steps: int) -> Values:
    """The laptop under unsteady load: runs scatter by another 15 %."""
    return draw_laptop(rng, runs, steps) * np.exp(rng.normal(0, 0.15, (runs, 1)))


def draw_seeds(rng: Rng, runs: int, steps: int) -> Values:
    """Steps as in the seed logs: of nine, four or five are steady (0.0706 s ± 0.255 %), the rest are waits."""
    pattern = np.array(SEEDS)[rng.integers(0, len(SEEDS), runs), :steps]
    base = 0.0706 * np.exp(rng.normal(0, 0.00255, (runs, 1)))
    jitter = np.abs(rng.normal(0, 0.03, pattern.shape)) * (rng.random(pattern.shape) < 0.5)
    steady = base * np.exp(jitter + rng.normal(0, 0.003, pattern.shape))
    return np.where(pattern == 0, steady, base * pattern * np.exp(rng.normal(0, 0.2, pattern.shape)))


def draw_again(path: Path) -> Draw:
    """Return a function that repeats real runs in their order, each with resampled blocks of its own steps."""
    clock = np.stack(list(read_logs(path)))

    def draw(rng: Rng, runs: int, steps: int) -> Values:
        starts = rng.integers(0, clock.shape[1], (runs, -(-steps // BLOCK), 1))
        index = ((starts + np.arange(BLOCK)) % clock.shape[1]).reshape(runs, -1)[:, :steps]
        return np.take_along_axis(clock[np.arange(runs) % len(clock)], index, axis=1)

    return draw


def read_logs(folder: Path) -> Iterator[Values]:
    """Yield the seconds of each log's steps but the first, with all printed digits. All logs have one length."""
    for path in sorted(folder.glob("*.log")):
        steps = scrape_run(path).steps
        rate = steps["tokens_per_s_per_device"].to_numpy()
        yield refine_seconds(steps["seconds"].to_numpy(), rate)[0][1:]


REGIMES: dict[str, Draw] = {
    "tpu": draw_tpu, "gpu": draw_gpu, "laptop": draw_laptop, "harsh": draw_harsh, "calm": draw_calm,
    "seeds": draw_seeds,
}  # fmt: skip
RUNS = (1, 3, 5, 10)
CHANGES: dict[DeviceKind, tuple[float, ...]] = {"tpu": (0.02, 0.05), "gpu": (0.05,), "cpu": (0.05, 0.3)}


def make_cells(*, real: bool) -> list[Cell]:
    """Return every regime with every number of runs and each of the regime's numbers of steps."""
    drawn: list[tuple[str, DeviceKind, tuple[int, ...]]] = [
        ("tpu", "tpu", (10, 50, 200)), ("gpu", "gpu", (10, 50, 200)), ("laptop", "cpu", (10, 50, 200)),
        ("harsh", "cpu", (50,)), ("calm", "cpu", (50,)), ("seeds", "tpu", (9,)),
    ]  # fmt: skip
    if real:
        drawn.append(("real", "cpu", (48,)))
    return [
        Cell(
            regime=regime,
            device=device,
            runs=runs,
            steps=steps,
            changes=(0.05,) if regime == "seeds" else CHANGES[device],
        )
        for regime, device, lengths in drawn
        for steps in lengths
        for runs in RUNS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--only", choices=(*REGIMES, "real"))
    parser.add_argument("--real", type=Path)
    arguments = parser.parse_args()
    print(describe_machine(("numpy", "scipy", "polars")))
    if arguments.real:
        REGIMES["real"] = draw_again(arguments.real)
    print("regime runs×steps apart change pairs | different same unknown | peers: different (MW asv rustc t)")
    for cell in make_cells(real=bool(arguments.real)):
        if arguments.only in (None, cell.regime):
            for apart in (False, True):
                for line in judge_cell(cell, apart=apart, trials=arguments.trials):
                    print(
                        f"{cell.regime:7}{cell.runs:3}×{cell.steps:<4}{'days' if apart else 'hour'} {line}", flush=True
                    )


def judge_cell(cell: Cell, *, apart: bool, trials: int) -> Iterator[str]:
    """Yield a line per change (no change first) and length of history. All lines are of the same runs."""
    rng = np.random.default_rng([cell.runs, cell.steps, apart])
    pasts = {pairs: draw_pasts(cell.regime, cell.steps, pairs) for pairs in PAIRS}
    pool, levels = draw_pool(cell.regime, cell.steps)
    noise, arms = load_noises()[cell.device], make_arms(cell, apart=apart)
    for change in (0.0, *cell.changes):
        ours: dict[int, Counter[str]] = {pairs: Counter() for pairs in PAIRS}
        theirs: dict[int, Counter[str]] = {pairs: Counter() for pairs in PAIRS}
        seen: list[tuple[Values, Values]] = []
        count = trials // 2 if change else trials
        for trial in range(count):
            chosen = choose_runs(cell.regime, cell.steps, 2 * cell.runs, rng)
            slower = (1 + change) * (float(np.exp(rng.normal(0, noise.days_apart))) if apart else 1.0)
            sides = [levels[run] for run in chosen[::2]], [slow_down(levels[run], slower) for run in chosen[1::2]]
            seconds = pool[chosen[::2]], pool[chosen[1::2]] * slower
            seen.append(seconds)
            for pairs, histories in pasts.items():
                past = histories[trial % len(histories)]
                ours[pairs][judge(arms, sides, past)] += 1
                theirs[pairs]["rustc"] += judge_like_rustc(seconds, past)
        others = judge_like_others(seen, noise.least)
        for pairs in PAIRS:
            said = ours[pairs]
            shares = (said["regressed"] + said["improved"], said["same"], said["unknown"],
                      *((others | theirs[pairs])[name] for name in ("mw", "asv", "rustc", "t")))  # fmt: skip
            yield f"{change:+5.0%} {pairs:3} |" + "".join(f"{100 * share / count:7.1f}" for share in shares)


@cache
def draw_pool(regime: str, steps: int) -> tuple[Values, list[StepLevels]]:
    """Return (seconds, levels) of a pool's runs. The levels are computed from the seconds as logs print them."""
    seconds = REGIMES[regime](np.random.default_rng(steps), POOL, steps)
    printed = (refine_seconds(np.round(run, 3), np.round(TOKENS / run, 3)) for run in seconds)
    found = [find_levels(fine, unit=unit) for fine, unit in printed]
    return seconds[[levels is not None for levels in found]], [levels for levels in found if levels]


def choose_runs(regime: str, steps: int, count: int, rng: Rng) -> NDArray[np.int64]:
    """Return the indices of runs chosen from the pool; real runs stay in their order."""
    size = len(draw_pool(regime, steps)[1])
    if regime == "real":
        return rng.integers(0, size - count + 1) + np.arange(count)
    return rng.choice(size, count, replace=False)


def slow_down(levels: StepLevels, factor: float) -> StepLevels:
    """Return a run's levels as if all steps took `factor` times as long."""
    quick, middle = (level.replace(seconds=factor * level.seconds) for level in (levels.quick, levels.middle))
    return levels.replace(quick=quick, middle=middle)


@cache
def draw_pasts(regime: str, steps: int, pairs: int) -> list[dict[str, Past]]:
    """Return HISTORIES histories with this number of pairs of runs, as the store would keep them."""
    rng, levels = np.random.default_rng([steps, pairs]), draw_pool(regime, steps)[1]
    chosen = [choose_runs(regime, steps, 2 * pairs, rng) for _ in range(HISTORIES)]
    return [draw_past([levels[run] for run in runs]) for runs in chosen] if pairs else [{}]


def draw_past(found: list[StepLevels]) -> dict[str, Past]:
    """Return the history of these runs, paired one by one: per metric, the differences of the pairs."""
    past = {}
    for name, level in ((STEP_TIME.quick, "quick"), (STEP_TIME.name, "middle")):
        runs = [(getattr(levels, level).seconds, getattr(levels, level).error) for levels in found]
        pairs = zip(runs[::2], runs[1::2], strict=False)
        sizes, errors = zip(*(difference_of(*pair) for pair in pairs), strict=True)
        past[name] = Past(differences=sizes, errors=errors, source="past")
    return past


def make_arms(cell: Cell, *, apart: bool) -> Arms:
    """Return both arms' runs, made in turns or on two days. Their seconds are dummies: the levels are given apart."""
    arms = []
    for index, name in enumerate(("a", "b")):
        start = MONDAY + timedelta(minutes=5 * index, days=index if apart else 0)
        runs = [make_run(name, cell.device, np.ones(9), start + timedelta(minutes=10 * n)) for n in range(cell.runs)]
        arms.append(ArmRuns(name=name, label=name, runs=tuple(runs)))
    return arms[0], arms[1]


def judge(arms: Arms, levels: tuple[list[StepLevels], list[StepLevels]], past: dict[str, Past]) -> str:
    """Return our verdict on the step time."""
    return decide_levels(levels, STEP_TIME, arms, RULES, Circumstances(past=past)).verdict


def make_run(arm: str, device: DeviceKind, seconds: Values, start: datetime) -> RunRecord:
    """Return a run as its log prints it; its first step waits for the compiler."""
    every = np.concatenate([[20.0], seconds])
    count = len(every)
    steps = pl.DataFrame(
        {
            "step": range(count), "seconds": np.round(every, 3), "tokens_per_s_per_device": np.round(TOKENS / every, 3),
            "loss": np.full(count, 8.0), "line": range(count), "offset": range(count), "time": [None] * count,
        },
        schema_overrides=STEP_SCHEMA,
    )  # fmt: skip
    reading = RunReading(
        name=arm, format="maxtext", exit_code=0, steps=steps, started=start.isoformat(),
        ended=(start + timedelta(minutes=4)).isoformat(), environment=Environment(device_kind=DEVICES[device]),
    )  # fmt: skip
    return RunRecord(plan=None, arm=arm, label=arm, commit=None, log=f"/{arm}/log.txt", reading=reading)


def judge_like_others(trials: Sequence[tuple[Values, Values]], least: float) -> Counter[str]:
    """Return how often each peer that needs no history calls the arms different. All trials at once, for speed."""
    sides = [np.stack([trial[side] for trial in trials]) for side in (0, 1)]  # [trials, runs, steps]
    pooled = [side.reshape(len(side), -1) for side in sides]
    ratio = np.median(pooled[1], axis=1) / np.median(pooled[0], axis=1)
    p = stats.mannwhitneyu(*pooled, axis=1).pvalue
    levels = [np.median(side, axis=2) for side in sides] if sides[0].shape[1] > 1 else pooled
    said = {
        "mw": (p < 0.01) & (np.abs(ratio - 1) >= least),
        "asv": (p < 0.002) & ((ratio > 1.1) | (ratio < 1 / 1.1)),
        "t": stats.ttest_ind(*levels, axis=1, equal_var=False).pvalue < 0.01,
    }
    return Counter({name: int(found.sum()) for name, found in said.items()})


def judge_like_rustc(sides: tuple[Values, Values], past: dict[str, Past]) -> bool:
    """Return whether the arms differ by more than the fence of the history's differences."""
    changes = np.abs(past[STEP_TIME.name].differences) if past else np.array([])
    low, high = np.quantile(changes, (0.25, 0.75)) if changes.size else (0.002, 0.002)
    return abs(log(float(np.median(sides[1]) / np.median(sides[0])))) > high + 3 * (high - low)


if __name__ == "__main__":
    main()
