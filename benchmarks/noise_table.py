"""Turns a table of real steps (`noise_collect`) into runs: as they were, resampled, slowed down, or as run records."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from configs.schema import Frozen
from tasks.diff.levels import Levels, find_levels
from tasks.diff.noise import NoisePrior, fit_prior, neighbour_differences
from tasks.diff.time_rows import CPU_TIME, QUICK, STEP_TIME
from tasks.records import STEP_SCHEMA, Coverage, Parameters, RunReading, RunRecord

STRETCH = 30  # neighbouring runs that are either judged or tell the noise, never both
BLOCK = 10  # steps that are drawn together
TFLOP_PER_STEP = 0.01  # any constant: throughput is one over the step time
TOKENS_PER_STEP = 1024

type Steps = NDArray[np.float64]  # (runs, steps)
type Run = dict[str, Levels]  # by the names of the metrics that have noise


class Noise(Frozen):
    """Clocks (seconds by the metric's name) and losses of every step of every run, in the order they ran."""

    clocks: dict[str, Steps]
    losses: Steps

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.losses)

    def side(self, half: int) -> list[range]:
        """The stretches of one half: those with an even or those with an odd number."""
        starts = range(half * STRETCH, self.runs, 2 * STRETCH)
        return [range(start, min(start + STRETCH, self.runs)) for start in starts]


def load_noise(path: Path) -> Noise:
    """The table as arrays; a run with fewer steps than the others is an error of the collection."""
    table = pl.read_parquet(path).sort("run", "step")
    shape = (table["run"].n_unique(), -1)
    measured = [metric.name for metric in (STEP_TIME, CPU_TIME) if metric.name in table.columns]
    clocks = {name: table[name].to_numpy().reshape(shape) for name in measured}
    return Noise(clocks=clocks, losses=table["loss"].to_numpy().reshape(shape))


def priors_from(noise: Noise, stretches: list[range], rng: np.random.Generator | None = None) -> dict[str, NoisePrior]:
    """What the history would know if it held these runs: neighbours of one stretch are runs of one commit.

    With `rng` each with its steps drawn again, as the runs have them that are judged by it.
    """
    found = {}
    runs = [[levels_of(noise, run, rng and draw_steps(noise, rng)) for run in stretch] for stretch in stretches]
    for metric in noise.clocks:
        for name, key in ((QUICK[metric], "quick"), (metric, "middle")):
            groups = [[(getattr(run[metric], key).seconds, run[metric].unrest) for run in stretch] for stretch in runs]
            prior = fit_prior(neighbour_differences(groups), "other stretches")
            if prior is not None:
                found[name] = prior
    return found


def levels_of(noise: Noise, run: int, steps: NDArray[np.int64] | None = None) -> Run:
    """The levels of one run, its first step left out as always; out of these steps, counted from the second."""
    found = {}
    for metric, clock in noise.clocks.items():
        seconds = clock[run][1:]
        levels = find_levels(seconds if steps is None else seconds[steps])
        assert levels is not None  # a run of the collection has dozens of steps
        found[metric] = levels
    return found


def draw_runs(noise: Noise, stretches: list[range], count: int, rng: np.random.Generator) -> Iterator[Run]:
    """`count` runs as they could have followed each other: neighbours from one stretch, so that drift and load stay in,
    each with blocks of its own steps drawn again, so that stalls stay in; the first step stays first."""
    long_enough = [stretch for stretch in stretches if len(stretch) >= count]
    places = np.concatenate([np.arange(s.start, s.stop - count + 1) for s in long_enough])
    start = int(rng.choice(places))
    for run in range(start, start + count):
        yield levels_of(noise, run, draw_steps(noise, rng))


def draw_steps(noise: Noise, rng: np.random.Generator) -> NDArray[np.int64]:
    """Blocks of the steps of a run, as many steps as it has but the first."""
    steps = noise.losses.shape[1] - 1
    blocks = rng.integers(0, steps, -(-steps // BLOCK))
    return (blocks[:, None] + np.arange(BLOCK)).ravel()[:steps] % steps


def make_record(
    arm: str, noise: Noise, run: int, *, losses: NDArray[np.float64] | None = None, exact: bool = True
) -> RunRecord:
    """The record of a run: what its log would print, and in full precision if `exact`; with other losses if given."""
    losses = noise.losses[run] if losses is None else losses
    clocks = {name: clock[run] for name, clock in noise.clocks.items()}
    seconds = clocks[STEP_TIME.name]
    count = len(seconds)
    printed = pl.DataFrame(
        {
            "step": range(count),
            "seconds": np.round(seconds, 3),
            "tflops_per_device": np.round(TFLOP_PER_STEP / seconds, 3),
            "tokens_per_s_per_device": np.round(TOKENS_PER_STEP / seconds, 3),
            "total_weights": [TOKENS_PER_STEP] * count,
            "loss": np.round(losses, 3),
            "time": [None] * count,
            "line": range(count),
            "offset": range(count),
        },
        schema_overrides=STEP_SCHEMA,
    )
    return RunRecord(
        plan=None,
        arm=arm,
        label=arm,
        commit="a" * 40,
        log=f"/noise/{arm}-{run}/log.txt",
        reading=RunReading(
            name=f"{arm}-{run}",
            format="maxtext",
            exit_code=0,
            steps=printed,
            parameters=Parameters(count=1_000_000, printed="0.001 billion"),
            coverage=Coverage(step_lines_seen=count, step_lines_parsed=count, complete=True),
        ),
        metrics=pl.DataFrame({"step": range(count), "loss": losses, **clocks}) if exact else None,
    )
