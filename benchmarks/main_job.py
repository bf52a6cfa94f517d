"""Times the main job as its user meets it: `maxview compare linen-vs-nnx` and `maxview ingest`, whole processes.

    uv run python -m benchmarks.main_job [--page SAVED_PAGE] [--rounds 3]

For each command it prints wall seconds, what of them was the two trainers' own time, the rest, and the peak memory of
the command's own process; first with an embedded Prefect server, then against a running one.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from benchmarks.machine import describe_machine
from tasks.store import Store

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Timing:
    """One command: its wall time, the trainers' share of it, and its peak resident memory."""

    wall_s: float
    trainers_s: float
    peak_mb: float
    status: int

    @property
    def rest_s(self) -> float:
        return self.wall_s - self.trainers_s


def run(words: list[str], out: Path, environment: dict[str, str]) -> Timing:
    """Run `maxview WORDS --out OUT`; trainers' time is from each supervisor's start to the last write of its log."""
    argv = [sys.executable, "-m", "flows.cli", *words, "--out", str(out), "--json"]
    start = time.time()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)
    _, status, usage = os.wait4(process.pid, 0)  # the peak of this process, or of a child that it waited for
    wall = time.time() - start
    trainers = 0.0
    for directory in Store(out).runs():
        handle = directory.read_handle()
        if handle is not None and directory.log.stat().st_mtime >= start:
            trainers += directory.log.stat().st_mtime - (psutil.boot_time() + handle.created)
    return Timing(wall, trainers, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status))


@contextmanager
def server(home: Path, environment: dict[str, str]) -> Iterator[str]:
    """A Prefect server on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    settings = {"PREFECT_HOME": str(home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    process = subprocess.Popen(argv, env=environment | settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/api"
    try:
        while True:
            try:
                httpx.get(f"{url}/health", timeout=2).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(20)


def show(name: str, timings: list[Timing]) -> None:
    """One line: the medians over the rounds."""
    statuses = {timing.status for timing in timings}
    middle = [
        statistics.median(values)
        for values in zip(*((t.wall_s, t.trainers_s, t.rest_s, t.peak_mb) for t in timings), strict=True)
    ]
    print(
        f"{name:38} wall {middle[0]:6.1f} s   trainers {middle[1]:6.1f} s   rest {middle[2]:5.1f} s   "
        f"peak {middle[3]:5.0f} MB   exit {sorted(statuses)}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--page", type=Path, help="a saved MaxView page, for ingest")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "JAX_", "XLA_"))}
        embedded = clean | {"PREFECT_HOME": str(scratch / "embedded")}
        jobs = {"compare linen-vs-nnx": ["compare", "linen-vs-nnx", "--fresh"]}
        if options.page:
            jobs["ingest a page"] = ["ingest", str(options.page.absolute())]
        # the first start creates the database
        run(["compare", "linen-vs-nnx", "--set", "steps=2"], scratch / "first", embedded)
        for name, words in jobs.items():
            show(f"{name}, embedded", [run(words, scratch / "e", embedded) for _ in range(options.rounds)])
        with server(scratch / "server", clean) as url:
            reached = clean | {"PREFECT_HOME": str(scratch / "client"), "PREFECT_API_URL": url}
            for name, words in jobs.items():
                show(f"{name}, running server", [run(words, scratch / "s", reached) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
