"""Times `maxview compare linen-vs-nnx` and `maxview ingest` as whole processes, as a user runs them.

    uv run python -m benchmarks.main_job [--page SAVED_PAGE] [--rounds 3] [--only ingest]

The peer is a bare Prefect flow of one task, with Prefect's own temporary server. Each round runs the bare flow, the
command for the first time (without an idle server), and the command again. The benchmark prints wall seconds, the
trainers' share of them, the rest, and the rest over the bare flow's time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.machine import describe_machine
from tasks.launch.known_backends import read_handle
from tasks.launch.local.handle import LocalHandle
from tasks.store.store import Store

ROOT = Path(__file__).parent.parent
BARE = """
from prefect import flow, task
@task
def one(): return 1
@flow
def bare(): return one()
bare()
"""
SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
}


class Timing(NamedTuple):
    """The wall seconds of one command, and the trainers' share of them."""

    wall_s: float
    trainers_s: float = 0.0

    @property
    def rest_s(self) -> float:
        return self.wall_s - self.trainers_s


def run(
    argv: list[str], environment: dict[str, str], store: Path | None = None, statuses: tuple[int, ...] = (0,)
) -> Timing:
    """Run and time a command. A trainer's time is from the start of its supervisor to the last write of its log."""
    start = time.time()
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    wall = time.time() - start
    assert done.returncode in statuses, done.stderr
    trainers = 0.0
    for directory in Store(store).runs() if store else ():
        handle = read_handle(directory)
        if isinstance(handle, LocalHandle) and directory.log.stat().st_mtime >= start:
            trainers += directory.log.stat().st_mtime - (psutil.boot_time() + handle.created)
    return Timing(wall, trainers)


def measure(words: list[str], scratch: Path, clean: dict[str, str]) -> tuple[Timing, Timing, Timing]:
    """Time the bare flow, the command without an idle server, and the command again. scratch: keeps their databases."""
    command = [sys.executable, "-m", "flows.cli"]
    ours = clean | {"PREFECT_HOME": str(scratch / "ours")}
    job = [*command, *words, "--out", str(scratch / "out"), "--json"]
    bare = run([sys.executable, "-c", BARE], clean | SETTINGS | {"PREFECT_HOME": str(scratch / "bare")})
    try:
        first = run(job, ours, scratch / "out", (0, 1, 3))
        second = run(job, ours, scratch / "out", (0, 1, 3))
    finally:
        run([*command, "down"], ours)
    return bare, first, second


def show(name: str, timings: list[Timing], bare: list[Timing]) -> None:
    """Print one line with the medians over the rounds."""
    wall, trainers, rest = (
        statistics.median(values) for values in zip(*((t.wall_s, t.trainers_s, t.rest_s) for t in timings), strict=True)
    )
    share = statistics.median(one.rest_s / peer.wall_s for one, peer in zip(timings, bare, strict=True))
    print(
        f"{name:32} wall {wall:6.1f} s   trainers {trainers:6.1f} s   rest {rest:5.1f} s   {share:5.2f} x", flush=True
    )


def main() -> None:
    """Run all rounds and print the timings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--page", type=Path, help="a saved MaxView page, for ingest")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("compare", "ingest"))
    options = parser.parse_args()
    jobs = {"compare": ["compare", "linen-vs-nnx", "--fresh"]}
    if options.page:
        jobs["ingest"] = ["ingest", str(options.page.absolute())]
    print(describe_machine(), f"load {os.getloadavg()[0]:.1f}")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "JAX_", "XLA_"))}
    for name, words in jobs.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            measure(words, Path(folder), clean)  # creates the databases; not counted
            rounds = [measure(words, Path(folder), clean) for _ in range(options.rounds)]
        bare, first, second = (list(timings) for timings in zip(*rounds, strict=True))
        show("a bare flow of one task", bare, bare)
        show(name, first, bare)
        show(f"{name}, again", second, bare)


if __name__ == "__main__":
    main()
