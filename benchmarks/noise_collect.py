"""Writes the step times of N trainings of one config into a table: real noise for the other benchmarks.

    python -m benchmarks.noise_collect --runs 400 --steps 50 -o noise.parquet

The runs follow each other as in a comparison (A B A B …, one at a time), each in its own process, forked from one with
JAX imported to save the imports' time. Checkpoints are saved in the background every 20 steps, as in a real run, so the
table contains their stalls and all other load of the machine. The table is rewritten after every run, so that an
interrupted collection keeps its runs.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from benchmarks.machine import describe_machine
from configs.comparison import load_target
from configs.load import load_train_config

FIXED = ("checkpoint_period=20", "log_config=false")


def train_once(config: str, overrides: tuple[str, ...], log: str) -> None:
    """In the forked process: one training, its output in a file."""
    from model.train.__main__ import main  # the fork server has imported it already

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.exit(main([config, *overrides]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("-o", "--output", type=Path, default=Path("noise.parquet"))
    arguments = parser.parse_args()
    target = load_target("cpu")
    # the C library reads MALLOC_… once, when a process starts: so the fork server must start with them
    os.environ |= target.environment
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["model.train.__main__"])
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


if __name__ == "__main__":
    main()
