"""Turns a table of real steps (`noise_collect`) into runs: as they were, resampled, slowed down, or as run records."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from configs.schema import Frozen
from tasks.diff.levels import Levels, find_levels
from tasks.diff.noise import NoisePrior, fit_prior, neighbour_differences
from tasks.diff.time_rows import QUICK_STEPS, STEP_TIME
from tasks.records import STEP_SCHEMA, Coverage, Parameters, RunReading, RunRecord

STRETCH = 30  # neighbouring runs that are either judged or tell the noise, never both
BLOCK = 10  # steps that are drawn together
TFLOP_PER_STEP = 0.01  # any constant: throughput is one over the step time
TOKENS_PER_STEP = 1024

type Steps = NDArray[np.float64]  # (runs, steps)


class Noise(Frozen):
    """Seconds and losses of every step of every run, in the order they ran."""

    seconds: Steps
    losses: Steps

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.seconds)

    def side(self, half: int) -> list[range]:
        """The stretches of one half: those with an even or those with an odd number."""
        starts = range(half * STRETCH, self.runs, 2 * STRETCH)
        return [range(start, min(start + STRETCH, self.runs)) for start in starts]


def load_noise(path: Path) -> Noise:
    """The table as two arrays; a run with fewer steps than the others is an error of the collection."""
    table = pl.read_parquet(path).sort("run", "step")
    shape = (table["run"].n_unique(), -1)
    return Noise(seconds=table["step_time_s"].to_numpy().reshape(shape), losses=table["loss"].to_numpy().reshape(shape))


def priors_from(noise: Noise, stretches: list[range]) -> dict[str, NoisePrior]:
    """What the history would know if it held these runs: neighbours of one stretch are runs of one commit."""
    found = {}
    for name, key in ((QUICK_STEPS, "quick"), (STEP_TIME.name, "middle")):
        groups = [[getattr(levels_of(noise.seconds[run]), key).seconds for run in stretch] for stretch in stretches]
        prior = fit_prior(neighbour_differences(groups), "other stretches")
        if prior is not None:
            found[name] = prior
    return found


def levels_of(seconds: NDArray[np.float64]) -> Levels:
    """The levels of one run, its first step left out as always."""
    levels = find_levels(seconds[1:])
    assert levels is not None  # a run of the collection has dozens of steps
    return levels


def draw_runs(
    noise: Noise, stretches: list[range], count: int, rng: np.random.Generator
) -> Iterator[NDArray[np.float64]]:
    """`count` runs as they could have followed each other: neighbours from one stretch, so that drift and load stay in,
    each with blocks of its own steps drawn again, so that stalls stay in; the first step stays first."""
    long_enough = [stretch for stretch in stretches if len(stretch) >= count]
    places = np.concatenate([np.arange(s.start, s.stop - count + 1) for s in long_enough])
    start = int(rng.choice(places))
    for run in range(start, start + count):
        steps = noise.seconds[run][1:]
        blocks = rng.integers(0, steps.size, -(-steps.size // BLOCK))
        index = (blocks[:, None] + np.arange(BLOCK)).ravel()[: steps.size] % steps.size
        yield np.concatenate([noise.seconds[run][:1], steps[index]])


def make_record(
    arm: str, number: int, seconds: NDArray[np.float64], losses: NDArray[np.float64], *, exact: bool = True
) -> RunRecord:
    """The record of a run with these steps: what the log would print, and in full precision if `exact`."""
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
        log=f"/noise/{arm}-{number}/log.txt",
        reading=RunReading(
            name=f"{arm}-{number}",
            format="maxtext",
            exit_code=0,
            steps=printed,
            parameters=Parameters(count=1_000_000, printed="0.001 billion"),
            coverage=Coverage(step_lines_seen=count, step_lines_parsed=count, complete=True),
        ),
        metrics=pl.DataFrame({"step": range(count), "loss": losses, "step_time_s": seconds}) if exact else None,
    )
