"""Measures the speed of reading Megatron's logs: our reader against a line loop with `re` for six fields.

    python benchmarks/scrape_megatron.py [--rows 200000] [--repeats 3]

Four logs: Megatron-LM's rows alone; the same with the timers and validation rows that stand between them; Primus's rows
with a launcher's prefix, `instantaneous/average` and a word among the numbers; and a log in which every tenth row was
skipped. Ours takes every field as numbers, with time, line and offset. Every reading runs in a process of its own.
"""

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SIX = re.compile(
    rb"iteration +(\d+)/ *\d+ \|.*?consumed samples: +(\d+) \|.*?elapsed time per iteration \(ms\): ([\d.]+).*?"
    rb"learning rate: (\S+) \|.*?lm loss: (\S+) \|.*?grad norm: (\S+) \|"
)


def megatron_rows(rows: int) -> Iterator[str]:
    """Rows as Megatron-LM core 0.12 prints them."""
    draw = random.Random(1)
    for step in range(1, rows + 1):
        yield (
            f" [2025-06-28 {step // 3600 % 24:02d}:{step // 60 % 60:02d}:{step % 60:02d}]"
            f" iteration {step:8d}/{rows:8d} | consumed samples: {step * 256:12d} |"
            f" elapsed time per iteration (ms): {draw.uniform(4400, 4600):.1f} |"
            f" throughput per GPU (TFLOP/s/GPU): {draw.uniform(400, 420):.1f} | learning rate:"
            f" {draw.random() / 1000:.6E} | global batch size: {256:5d} | lm loss: {draw.uniform(2, 9):.6E} |"
            f" loss scale: 4096.0 | grad norm: {draw.uniform(0, 4):.3f} | num zeros: {draw.randrange(999)}.0 |"
            f" number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |\n"
        )


def skipped_rows(rows: int) -> Iterator[str]:
    """Every tenth row is one of a skipped iteration."""
    lost = re.compile(r" (?:lm loss|grad norm|num zeros): \S+ \|")
    for number, row in enumerate(megatron_rows(rows)):
        yield (
            lost.sub("", row).replace("skipped iterations:   0", "skipped iterations:   1") if number % 10 == 9 else row
        )


def timed_rows(rows: int) -> Iterator[str]:
    """With timers after every row and a validation after every hundredth."""
    for number, row in enumerate(megatron_rows(rows), start=1):
        yield row
        yield "(min, max) time across ranks (ms):\n"
        for timer in ("forward-backward", "forward-compute", "backward-compute", "optimizer"):
            yield f"    {timer} {'.' * (48 - len(timer))}: ({number % 97}.21, {number % 97 + 1}.34)\n"
        if number % 100 == 0:
            yield f" validation loss at iteration {number} | lm loss value: 7.1E+00 | lm loss PPL: 1.2E+03 | \n"


def primus_rows(rows: int) -> Iterator[str]:
    """As Primus prints them on the last rank."""
    for number, row in enumerate(megatron_rows(rows)):
        date = row[2:21].replace("-", "")
        prefix = f"[{date}][rank-31/32][INFO ] [-----trainer.py:1234] : "
        row = re.sub(r"\(ms\): (\S+)", rf"(ms): \1/4500.1 | hip mem usage/free/total/usage_ratio: {number % 190}.20GB/"
                     r"41.79GB/191.98GB/78.23%", row[22:])  # fmt: skip
        yield prefix + re.sub(r"GPU\): (\S+)", r"GPU): \1/410.3", row)


LOGS: dict[str, Callable[[int], Iterator[str]]] = {
    "Megatron-LM": megatron_rows, "with timers": timed_rows, "Primus": primus_rows, "skipped": skipped_rows,
}  # fmt: skip


def read_ours(path: Path) -> int:
    """Every field, as numbers."""
    from tasks.scrape import scrape_run

    run = scrape_run(path)
    if run.coverage.step_lines_parsed != run.coverage.step_lines_seen:
        raise SystemExit(f"read {run.coverage.step_lines_parsed} of {run.coverage.step_lines_seen} rows")
    return run.steps.height


def read_line_loop(path: Path) -> int:
    """Six fields, line by line."""
    with path.open("rb") as file:
        return len([match.groups() for line in file if (match := SIX.search(line))])


WAYS: dict[str, Callable[[Path], int]] = {"ours": read_ours, "line loop, six fields": read_line_loop}


def run_one(way: str, path: Path) -> None:
    """Read once in this process; print seconds, rows and peak memory as JSON. Imports are not counted."""
    import tasks.scrape  # noqa: F401

    begin = time.perf_counter()
    rows = WAYS[way](path)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps({"seconds": seconds, "rows": rows, "peak_mb": peak}))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.one[0], Path(arguments.one[1]))
        return
    print(
        f"{arguments.rows:,} rows, best of {arguments.repeats}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in LOGS.items():
            path = Path(folder) / "log.txt"
            with path.open("w", encoding="ascii") as file:
                file.writelines(lines(arguments.rows))
            size = path.stat().st_size / 1e6
            for way in WAYS:
                command = [sys.executable, __file__, "--one", way, str(path)]
                results = [
                    json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
                    for _ in range(arguments.repeats)
                ]
                best = min(results, key=lambda result: result["seconds"])
                print(
                    f"{name:12s} {way:22s} {size:5.0f} MB  {size / best['seconds']:6.1f} MB/s  "
                    f"{best['peak_mb']:5.0f} MB  {best['rows']:,} rows"
                )


if __name__ == "__main__":
    main()
