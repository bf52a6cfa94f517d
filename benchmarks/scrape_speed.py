"""Measures the speed of reading logs: our reader against a line loop, `findall`, polars and grep, on the same log.

    python benchmarks/scrape_speed.py [--steps 1000000] [--repeats 3]

Each reader runs in a separate process, so that its peak memory is its own. The strict line loop reads every field as a
number, from lines that match MaxText's format completely; the other peers read six fields as text. Our reader reads
every field as a number, with time, line and offset, checks each line against the grammar, and counts unread lines;
`table` and `JSON` include the output of `maxview scrape` to a file. The log has four forms: with line breaks; without
line breaks; with varying step times, and so varying column widths; as Cloud Logging's JSON lines from a bucket sink.
MB/s refer to the file that is read; the line loops always read the log with line breaks.
"""

import argparse
import importlib.metadata
import io
import json
import os
import platform
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import exp
from pathlib import Path
from typing import Literal

SIX = rb"completed step: (\d+), seconds: (\S+), TFLOP/s/device: (\S+), Tokens/s/device: (\S+), total_weights: (\d+), loss: (\S+)"  # noqa: E501


# every field of a whole line, with MaxText's number of decimals
STRICT = (
    rb"I\d{4} (\d\d:\d\d:\d\d\.\d{6}) +\d+ [\w.]+:\d+\] completed step: (\d+), seconds: (\d+\.\d{3}), "
    rb"TFLOP/s/device: (\d+\.\d{3}), Tokens/s/device: (\d+\.\d{3}), total_weights: (\d+), loss: (\d+\.\d{3}), "
    rb"lm_loss: (\d+\.\d{3}), perplexity: (\d+\.\d{3})\n"
)


def write_log(path: Path, steps: int, *, ending: str = "\n", jumps: bool = False, as_json: bool = False) -> None:
    """Write a log with this number of steps, as MaxText 0.2.4 prints it in an XPK pod. jumps: step times vary."""
    draw = random.Random(1)
    with path.open("w", encoding="ascii") as file:

        def write(line: str) -> None:
            file.write(json_line(draw, line) if as_json else line + ending)

        write("XPK Start: Sat Apr 18 00:00:00 UTC 2026")
        for step in range(steps):
            seconds = draw.uniform(0.05, 2.0) if jumps else draw.uniform(0.14, 0.16)
            loss = draw.uniform(1.5, 12.0) if jumps else 8 + draw.random()
            clock = f"{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}.{draw.randrange(10**6):06d}"
            write(
                f"I{418 + step // 86400:04d} {clock} 135104514455360 metric_logger.py:196] completed step: {step}, "
                f"seconds: {seconds:.3f}, TFLOP/s/device: {13.59 / seconds:.3f}, "
                f"Tokens/s/device: {2048 / seconds:.3f}, total_weights: 65536, loss: {loss:.3f}, "
                f"lm_loss: {loss:.3f}, perplexity: {exp(loss):.3f}"
            )
        write("XPK End: Thu Apr 30 00:00:00 UTC 2026")
        write("EXIT_CODE=0")


def json_line(draw: random.Random, line: str) -> str:
    """Return a log line as GKE's entry of Cloud Logging (`LogEntry` in the REST reference of Cloud Logging)."""
    day, clock = (f"{line[3:5]}", line[6:21]) if line.startswith("I0") else ("18", "00:00:00")
    stamp = f"2026-04-{day}T{clock}Z" if not line.startswith(("XPK End", "EXIT")) else "2026-04-30T00:00:00Z"
    entry = {
        "insertId": f"{draw.getrandbits(64):016x}", "labels": {
            "compute.googleapis.com/resource_name": "gke-tpu-0f5c1a2b-x1z2",
            "k8s-pod/batch_kubernetes_io/job-name": "linen-main-slice-job-0",
            "k8s-pod/jobset_sigs_k8s_io/jobset-name": "linen-main",
        },
        "logName": "projects/my-project/logs/stderr", "receiveTimestamp": stamp,
        "resource": {"labels": {
            "cluster_name": "v6e-32-cluster", "container_name": "jax-tpu", "location": "us-east5",
            "namespace_name": "default", "pod_name": "linen-main-slice-job-0-0-abcde", "project_id": "my-project",
        }, "type": "k8s_container"},
        "severity": "ERROR", "textPayload": line, "timestamp": stamp,
    }  # fmt: skip
    return json.dumps(entry, separators=(",", ":")) + "\n"


def read_ours(path: Path) -> int:
    """Read every field as a number; return the number of rows. All readers return that number."""
    from tasks.scrape.read_log import scrape_run

    run = scrape_run(path)
    assert run.coverage.complete
    assert run.steps["time"].null_count() == 0
    return run.steps.height


def show_ours(path: Path, *, format_: Literal["table", "json"]) -> int:
    """Read every field as a number, and write a file as `maxview scrape --format … -o FILE` does."""
    from tasks.publish.terminal.scrape_output import show_reading
    from tasks.scrape.read_log import scrape

    reading = scrape(path)
    with tempfile.TemporaryDirectory() as folder:
        show_reading(reading, format_, Path(folder) / "shown")
    return reading.runs[0].steps.height


def read_line_loop(path: Path) -> int:
    """Read six fields as text, line by line, with `re`."""
    pattern = re.compile(SIX)
    rows = []
    with path.open("rb") as file:
        for line in file:
            if match := pattern.search(line):
                rows.append(match.groups())
    return len(rows)


def read_strict_loop(path: Path) -> int:
    """Read every field as a number, line by line, with `re.fullmatch`."""
    pattern = re.compile(STRICT)
    rows = []
    with path.open("rb") as file:
        for line in file:
            if match := pattern.fullmatch(line):
                time, *numbers = match.groups()
                rows.append((time, *map(float, numbers)))
    return len(rows)


def read_findall(path: Path) -> int:
    """Read six fields as text, with one `findall` over the bytes."""
    return len(re.compile(SIX).findall(path.read_bytes()))


def read_polars(path: Path) -> int:
    """Read six fields as text, with `extract_groups` on a polars column of lines."""
    import polars as pl

    lines = pl.read_csv(
        io.BytesIO(path.read_bytes()), has_header=False, separator="\0", quote_char=None, new_columns=["line"]
    )
    taken = lines.select(pl.col("line").str.extract_groups(SIX.decode())).unnest("line")
    return taken.drop_nulls().height


def read_grep(path: Path) -> int:
    """Count the lines with grep, without reading fields."""
    done = subprocess.run(["grep", "-c", "completed step", str(path)], capture_output=True, check=True)
    return int(done.stdout)


WAYS: dict[str, Callable[[Path], int]] = {
    "ours": read_ours, "table": partial(show_ours, format_="table"), "json": partial(show_ours, format_="json"),
    "strict loop": read_strict_loop, "line loop": read_line_loop, "findall": read_findall,
    "polars": read_polars, "grep -c": read_grep,
}  # fmt: skip


def run_one(way: str, path: Path) -> None:
    """Read once in this process and print seconds, rows and peak memory as JSON. Imports are not counted."""
    if way in ("ours", "table", "json"):
        import tasks.publish.terminal.scrape_output
        import tasks.scrape.read_log  # noqa: F401
    if way == "polars":
        import polars  # noqa: F401
    wall, cpu = time.perf_counter(), time.process_time()
    rows = WAYS[way](path)
    print(json.dumps({
        "seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": rows,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }))  # fmt: skip


def measure(way: str, path: Path) -> dict[str, float]:
    """Return the figures of one reader, run in a separate process."""
    command = [sys.executable, __file__, "--one", way, str(path)]
    result: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return result


def main() -> None:
    """Print a table of all readers and forms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.one[0], Path(arguments.one[1]))
        return
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "polars"))
    print(f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    folder = Path(tempfile.mkdtemp())
    results: dict[str, list[dict[str, float]]] = {}
    try:
        broken, joined, jumpy, exported = (folder / name for name in ("lines", "one-line", "jumps", "json"))
        write_log(broken, arguments.steps)
        write_log(joined, arguments.steps, ending=" ")
        write_log(jumpy, arguments.steps, jumps=True)
        write_log(exported, arguments.steps, as_json=True)
        size = broken.stat().st_size / 1e6
        print(f"{arguments.steps:,} step lines, {size:.0f} MB; best of {arguments.repeats}\n")
        ways = [
            ("strict line loop", "strict loop", broken), ("line loop, six fields", "line loop", broken),
            ("ours", "ours", broken), ("ours, table", "table", broken), ("ours, JSON", "json", broken),
            ("ours, one single line", "ours", joined), ("ours, widths that jump", "ours", jumpy),
            ("ours, Cloud Logging JSON", "ours", exported), ("findall, six fields", "findall", broken),
            ("polars, six fields", "polars", broken), ("grep -c", "grep -c", broken),
        ]  # fmt: skip
        for number in range(arguments.repeats):  # readers take turns, so that other load affects all alike
            for name, way, path in ways:
                results.setdefault(name, []).append(measure(way, path))
            print(f"round {number + 1} of {arguments.repeats}", file=sys.stderr)
        best = {name: min(some, key=lambda result: result["seconds"]) for name, some in results.items()}
        speeds = {name: path.stat().st_size / 1e6 / best[name]["seconds"] for name, _, path in ways}
        for name, _, _ in ways:
            result, ratio = best[name], speeds[name] / speeds["strict line loop"]
            print(
                f"{name:25s} {result['seconds']:6.2f} s {speeds[name]:6.0f} MB/s {ratio:6.2f} × strict loop "
                f"{speeds[name] / speeds['grep -c']:6.3f} × grep {result['cpu']:6.2f} CPU-s {result['peak_mb']:5.0f} MB"
                f" {result['rows']:,} rows"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
