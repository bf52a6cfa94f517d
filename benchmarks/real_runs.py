"""Counts false alarms and detections of the verdict on equal runs of real systems, through the real log reader.

    nice python -m benchmarks.real_runs FOLDER [--trials 4] [--only gpu]

FOLDER holds step times of equal runs, one row per block of steps: `*step-times.csv.gz` of GPU systems and
`*blocks.csv.gz` of TPU pods. Each run is written as a log and read again. A trial splits runs of one system at random
into the two arms; a change slows every step of the candidate. A TPU pod has three equal runs: for three of each, DRAWN
runs are its runs around levels that are drawn from its own scatter. Intervals are exact (Clopper and Pearson, 95 %), as
if every trial had systems of its own.
"""

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context  # a forked child of Polars hangs
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from configs.frozen import Frozen
from configs.verdict_rules import DeviceKind, load_effects, load_tolerances, make_rules
from tasks.diff.examine.arms import ArmRuns
from tasks.diff.examine.circumstances import Circumstances
from tasks.diff.judge.time_rows import step_time_row
from tasks.metrics.compute_facts import with_facts
from tasks.records.run import RunRecord
from tasks.scrape.read_log import scrape_run

type Values = NDArray[np.float64]

TOKENS = 1e6  # per step: the rate gives the seconds more digits than their own three
CHANGES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
RUNS: dict[DeviceKind, tuple[int, ...]] = {"gpu": (1, 3, 5), "tpu": (1, 3)}
DRAWN = 24  # runs drawn from three, where a trial needs more
DEVICES = {"gpu": "NVIDIA H200", "tpu": "TPU v5"}
PLACES = ("unknown", "one cluster")  # the logs do not name their nodes, or all name the same
HEAD = "System Information: Jax Version: 0.9.2\nNum_devices: 1, shape (1,)\n"
ROW = "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 0.000, Tokens/s/device: {:.3f}, total_weights: 1, loss: 8.000\n"  # noqa: E501


class System(Frozen, arbitrary_types_allowed=True):
    """The equal runs of one system."""

    name: str
    device: DeviceKind
    runs: tuple[Values, ...]  # seconds of each run's steps, in order


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=4, help="random splits of each system's runs")
    parser.add_argument("--only", choices=tuple(RUNS), action="append")
    arguments = parser.parse_args()
    print(describe_machine(("numpy", "scipy", "polars")))
    for device in arguments.only or RUNS:
        systems = [system for system in read_systems(arguments.folder) if system.device == device]
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            read = list(pool.map(read_runs, systems))
            drawn = list(pool.map(read_runs, map(draw_runs, systems))) if device == "tpu" else []
        for place in PLACES:
            print(f"{len(systems)} {device} systems, place {place}: different % (of trials; 95 %)")
            for count in RUNS[device]:
                enough = all(len(system.runs) >= 2 * count for system in systems) or not drawn
                cells = judge_systems(read if enough else drawn, count, arguments.trials, place)
                print(f"{count} runs{'' if enough else ', drawn'}:", *cells, sep="  ", flush=True)


def read_systems(folder: Path) -> Iterator[System]:
    """Yield every system with its runs."""
    for pattern, device, columns, seconds in (
        ("*step-times.csv.gz", "gpu", ["organisation", "system", "benchmark"], "step_s"),
        ("*blocks.csv.gz", "tpu", ["round", "system", "benchmark"], "seconds"),
    ):
        for path in sorted(folder.glob(pattern)):
            for key, rows in pl.read_csv(path).group_by(columns, maintain_order=True):
                runs = [run.sort("block")[seconds].to_numpy() for _, run in rows.group_by("run", maintain_order=True)]
                yield System.model_validate({"name": " ".join(map(str, key)), "device": device, "runs": tuple(runs)})


def draw_runs(system: System) -> System:
    """Return DRAWN runs: the steps of a real run, whose level is drawn from the scatter of the real runs' levels."""
    rng = np.random.default_rng(len(system.runs[0]))
    levels = np.array([np.median(run) for run in system.runs])
    scatter = float(np.log(levels).std(ddof=1))
    drawn = []
    for _ in range(DRAWN):
        which = rng.integers(len(levels))
        drawn.append(system.runs[which] / levels[which] * levels.mean() * np.exp(rng.normal(0, scatter)))
    return system.replace(runs=tuple(drawn))


def read_runs(system: System) -> dict[float, list[RunRecord]]:
    """Return change → the record of each run of a system, whose steps take that much longer."""
    found: dict[float, list[RunRecord]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for change in CHANGES:
            for run in system.runs:
                path = Path(folder, "log.txt")
                path.write_text(write_log(run * (1 + change)))
                reading = scrape_run(path)
                environment = reading.environment.replace(device_kind=DEVICES[system.device])
                reading = reading.replace(environment=environment)
                record = RunRecord(plan=None, arm="a", label="a", commit=None, log="/a/log.txt", reading=reading)
                found[change].append(with_facts(record))
    return dict(found)


def write_log(seconds: Values) -> str:
    """Return a log with these steps after a first one that compiles."""
    rows = [ROW.format(step, took, TOKENS / took) for step, took in enumerate([20.0, *seconds])]
    return HEAD + "".join(rows) + "EXIT_CODE=0\n"


@cache
def rules() -> object:
    """Return the rules of the verdict."""
    return make_rules("Same?", load_tolerances("default"), load_effects())


def judge_systems(read: Sequence[dict[float, list[RunRecord]]], count: int, trials: int, place: str) -> Iterator[str]:
    """Yield a cell per change: its size, the share of trials that find it, and the 95 % interval of this share."""
    rng = np.random.default_rng(count)
    found = dict.fromkeys(CHANGES, 0)
    total = 0
    for runs in read:
        for _ in range(trials):
            order = rng.permutation(len(runs[0.0]))
            left, right = order[:count], order[count : 2 * count]
            if len(right) < count:
                continue
            total += 1
            for change in CHANGES:
                word = judge([runs[0.0][n] for n in left], [runs[change][n] for n in right], place)
                found[change] += word == "regressed" or (word == "improved" and not change)
    for change, hits in found.items():
        low, high = stats.binomtest(hits, total).proportion_ci(method="exact")
        yield f"{change:+.1%} {100 * hits / total:.1f} ({100 * low:.1f}–{100 * high:.1f})"


def judge(baseline: list[RunRecord], candidate: list[RunRecord], place: str) -> str:
    """Return the verdict on the step time."""
    arms = tuple(
        ArmRuns(name=name, label=name, runs=tuple(with_place(run, place) for run in runs))
        for name, runs in (("a", baseline), ("b", candidate))
    )
    return step_time_row((arms[0], arms[1]), rules(), Circumstances())[1].verdict  # type: ignore[arg-type]


def with_place(run: RunRecord, place: str) -> RunRecord:
    """Return the run as if its log named its nodes, unless they are unknown."""
    if place == "unknown":
        return run
    environment = run.reading.environment.replace(place=place)
    return run.replace(reading=run.reading.replace(environment=environment))


if __name__ == "__main__":
    main()
