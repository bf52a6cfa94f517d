"""How fast logs are read: ours against a line loop, one `findall`, polars and grep, on the same log in the same run.

    python benchmarks/scrape_speed.py [--steps 1000000] [--repeats 3]

Every way runs in a process of its own, so that the peak memory is its own. The rivals take six fields and keep them as
text; ours takes every field as numbers, with time, line and offset, checks each line against the grammar, and accounts
for what it did not read.
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
from pathlib import Path

SIX = rb"completed step: (\d+), seconds: (\S+), TFLOP/s/device: (\S+), Tokens/s/device: (\S+), total_weights: (\d+), loss: (\S+)"  # noqa: E501


def write_log(path: Path, steps: int, wrapping: str) -> None:
    """A MaxText log of so many steps, as MaxText 0.2.4 prints them."""
    draw = random.Random(1)
    with path.open("w", encoding="ascii") as file:
        for step in range(steps):
            seconds, loss = draw.uniform(0.14, 0.16), 8 + draw.random()
            clock = f"{step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}.{draw.randrange(10**6):06d}"
            file.write(
                f"I0418 {clock} 135104514455360 metric_logger.py:196] completed step: {step}, seconds: {seconds:.3f}, "
                f"TFLOP/s/device: {13.59 / seconds:.3f}, Tokens/s/device: {2048 / seconds:.3f}, total_weights: 65536, "
                f"loss: {loss:.3f}, lm_loss: {loss:.3f}, perplexity: {2.718**loss:.3f}{wrapping}"
            )


def read_ours(path: Path) -> int:
    """Every field, as numbers."""
    from tasks.scrape import scrape_run

    run = scrape_run(path)
    assert run.coverage.step_lines_parsed == run.coverage.step_lines_seen
    return run.steps.height


def read_line_loop(path: Path) -> int:
    """Six fields, line by line, with `re`."""
    pattern = re.compile(SIX)
    rows = []
    with path.open("rb") as file:
        for line in file:
            if match := pattern.search(line):
                rows.append(match.groups())
    return len(rows)


def read_findall(path: Path) -> int:
    """Six fields, one `findall` over the bytes."""
    return len(re.compile(SIX).findall(path.read_bytes()))


def read_polars(path: Path) -> int:
    """Six fields, lines as a polars column, `extract_groups`."""
    import polars as pl

    lines = pl.read_csv(
        io.BytesIO(path.read_bytes()), has_header=False, separator="\0", quote_char=None, new_columns=["line"]
    )
    taken = lines.select(pl.col("line").str.extract_groups(SIX.decode())).unnest("line")
    return taken.drop_nulls().height


def read_grep(path: Path) -> int:
    """Only counts the lines."""
    done = subprocess.run(["grep", "-c", "completed step", str(path)], capture_output=True, check=True)
    return int(done.stdout)


WAYS: dict[str, Callable[[Path], int]] = {
    "ours": read_ours, "line loop": read_line_loop, "findall": read_findall, "polars": read_polars,
    "grep -c": read_grep,
}  # fmt: skip


def run_one(way: str, path: Path) -> None:
    """Read once in this process and print seconds, rows and peak memory as JSON. Imports are not counted."""
    if way == "ours":
        import tasks.scrape  # noqa: F401
    if way == "polars":
        import polars  # noqa: F401
    wall, cpu = time.perf_counter(), time.process_time()
    rows = WAYS[way](path)
    print(json.dumps({
        "seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": rows,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }))  # fmt: skip


def measure(way: str, path: Path, repeats: int) -> dict[str, float]:
    """The fastest of so many runs."""
    results = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--one", way, str(path)]
        results.append(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    return min(results, key=lambda result: result["seconds"])


def main() -> None:
    """Print a table."""
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
    try:
        broken, joined = folder / "lines.log", folder / "one-line.log"
        write_log(broken, arguments.steps, "\n")
        write_log(joined, arguments.steps, " ")
        size = broken.stat().st_size / 1e6
        print(f"{arguments.steps:,} step lines, {size:.0f} MB; best of {arguments.repeats}\n")
        base = measure("line loop", broken, arguments.repeats)
        for name, way, path in [
            ("ours", "ours", broken), ("ours, one single line", "ours", joined), ("line loop, six fields", "", broken),
            ("findall, six fields", "findall", broken), ("polars, six fields", "polars", broken),
            ("grep -c", "grep -c", broken),
        ]:  # fmt: skip
            result = measure(way, path, arguments.repeats) if way else base
            times = base["seconds"] / result["seconds"]
            print(
                f"{name:24s} {size / result['seconds']:7.0f} MB/s  {times:6.2f} × line loop  {result['cpu']:6.2f} CPU-s"
                f"  {result['peak_mb']:6.0f} MB  {result['rows']:,} rows"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
