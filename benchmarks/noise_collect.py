"""Turns N trainings of one config into a table of their steps: the real noise that the other benchmarks draw from.

    python -m benchmarks.noise_collect --runs 400 --steps 50 [--verify] -o noise.parquet

The runs follow each other as a comparison's would (A B A B …, one at a time), each in a process of its own that is
forked from one with JAX imported, so that a run costs its compilation and its steps and not the imports. Checkpoints
are saved in the background every 20 steps, as in a real run: their stalls are in the table, and so is whatever else
the machine did meanwhile. The table is written again after every run, so that an interrupted collection is not lost.
`--verify`: the checkpoints of every other run are verified as soon as they are committed, their content recorded, as
the flows do; at the end stands what that costs the trainer's steps.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from configs.comparison import load_target
from configs.load import load_train_config
from tasks.verify.checkpoint import verify_saved
from tasks.verify.commit import is_committed
from tasks.verify.layout import CheckpointError, find_steps

FIXED = ("checkpoint_period=20", "log_config=false")


def train_once(config: str, overrides: tuple[str, ...], log: str) -> None:
    """In the forked process: one training, its output in a file."""
    from model.train import main  # the fork server has imported it already

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.exit(main([config, *overrides]))


def verify_while(process: BaseProcess, run: Path) -> int:
    """Verifies every checkpoint of a run once, until its process has ended. How many there were."""
    seen: set[int] = set()
    while process.is_alive():
        for step in find_committed(run) - seen:
            proof = verify_saved(run / "checkpoints" / str(step), manifest=run / f"{step}.json")
            assert proof.ok, proof.problems
            seen.add(step)
        process.join(0.2)
    return len(seen)


def find_committed(run: Path) -> set[int]:
    with suppress(CheckpointError, OSError):  # none yet
        return {found.step for found in find_steps(run) if is_committed(found.path)}
    return set()


def show_cost(table: pl.DataFrame) -> None:
    """The quick and the middle step of verified runs, over those of their neighbours that were not."""
    for name, share in (("quick (10 %)", 0.1), ("median", 0.5)):
        levels = (
            table.filter(pl.col("step") > 0)
            .group_by("run", maintain_order=True)
            .agg(pl.col("step_time_s").quantile(share))
        )
        pairs = np.log(levels["step_time_s"].to_numpy().reshape(-1, 2))
        differences = pairs[:, 1] - pairs[:, 0]
        low, high = stats.t.interval(0.95, len(pairs) - 1, differences.mean(), stats.sem(differences))
        shown = " … ".join(f"{100 * np.expm1(end):+.2f}" for end in (low, high))
        print(
            f"{name} step, verified over not: {100 * np.expm1(differences.mean()):+.2f} % ({shown}), {len(pairs)} pairs"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=Path("noise.parquet"))
    arguments = parser.parse_args()
    target = load_target("cpu")
    # the C library reads MALLOC_… once, when a process starts: so the fork server must start with them
    os.environ |= target.environment
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["model.train"])
    steps: list[dict[str, float | int]] = []
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "config.yml")
        model = Path(__file__).parent.parent / "configs"
        parts = [model / "models" / f"{target.model}.yml", model / "cases" / "01_base.yml"]
        settings = "".join(f"{key}: {value}\n" for key, value in target.set.items())
        config.write_text("".join(part.read_text() for part in parts) + settings)
        for run in range(arguments.runs):
            name = f"run-{run:04d}"
            overrides = (f"base_output_directory={folder}", f"run_name={name}", f"steps={arguments.steps}", *FIXED)
            if run == 0:
                load_train_config(
                    config, list(overrides)
                )  # an error in the config is told here, not 400 times in a log
            started = time.time()
            log = str(Path(folder, f"{name}.log"))
            process = context.Process(target=train_once, args=(str(config), overrides, log))
            process.start()
            if arguments.verify and run % 2:
                checkpoints = verify_while(process, Path(folder, name))
                assert checkpoints, f"run {run} left nothing to verify"
            process.join()
            if process.exitcode != 0:
                sys.exit(f"run {run} ended with {process.exitcode}:\n{Path(log).read_text()[-2000:]}")
            wall = time.time() - started
            for line in Path(folder, name, "metrics.jsonl").read_text().splitlines():
                row = json.loads(line)
                steps.append(
                    {"run": run, "started": started, "wall_s": wall, "load": os.getloadavg()[0]}
                    | {key: row[key] for key in ("step", "step_time_s", "step_cpu_time_s", "loss")}
                )
            shutil.rmtree(Path(folder, name))
            pl.DataFrame(steps).write_parquet(arguments.output)
            if run % 20 == 19 or run + 1 == arguments.runs:
                print(f"{run + 1} of {arguments.runs} runs in {time.time() - began:.0f} s", flush=True)
    print(describe_machine(("jax", "polars")))
    if arguments.verify:
        show_cost(pl.DataFrame(steps))


if __name__ == "__main__":
    main()
