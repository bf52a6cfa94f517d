"""Measures loops that take turns: a trainer against itself, and against a copy whose host's loop does more.

    nice python -m benchmarks.turned_loops [--only PATTERN] [--times N] [--limit SECONDS] [--batch ROWS]

Each trial starts both trainers anew, and ends when the difference is decided or at the limit. Prints a line per trial
with the machine's load, then the words. `--batch` sets the step's time: 16 rows take about 17 ms, 72 about 80 ms.
"""

import argparse
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from math import expm1
from pathlib import Path

from benchmarks.interleaved import show_share
from benchmarks.machine import describe_machine
from benchmarks.plants.ours import DONE, LOOP
from benchmarks.same_function import plan_of
from tasks.experiments.loops_in_turns import loop_limits, needs_hosts, turn_loops
from tasks.records.loop_times import LoopTimes

ROOT = Path(__file__).parent.parent
# what the candidate's loop does in each step, before it reports
PLANTS = {
    "itself": "",
    "host + 5 ms": "__import__('time').sleep(0.005)",
    "host + 200 ms": "__import__('time').sleep(0.2)",
    "host + 5 ms of the processor": "sum(range(150_000))",
    "compile in every step": "jax.jit(lambda x: x + 1)(1.0)",
}


def edit(line: str, folder: Path) -> Path:
    """Return a copy of the trainer whose loop has one more line."""
    tree = folder / "tree"
    for name in ("model", "configs", "probe"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    loop = tree / LOOP
    text = loop.read_text()
    assert text.count(DONE) == 1
    loop.write_text(text.replace(DONE, f"        {line}\n{DONE}"))
    return tree


def take_trial(line: str, rows: int, limit_s: float) -> tuple[str, LoopTimes]:
    """Return the word and the times of one trial."""
    with tempfile.TemporaryDirectory(prefix="maxview-turned-") as scratch:
        folder = Path(scratch)
        words = (f"per_device_batch_size={rows}",)
        plans = [plan_of("01_base", words, "cpu", folder, edit(line, folder) if one else None) for one in ("", line)]
        limits = loop_limits(plans[0], "cpu", cases=1, limit_s=limit_s)
        found = turn_loops((plans[0], plans[1]), folder / "turns", limits)
    if found.wall is None:
        return "unknown", found
    if (found.wall.low > 0 or found.wall.high < 0) and abs(found.wall.effect) >= expm1(limits.least):
        return "different", found
    return "unknown" if needs_hosts(found, limits) else "same", found


def describe(word: str, found: LoopTimes) -> str:
    """Return a trial as a line."""
    if found.wall is None or found.cpu is None:
        return f"{word:9} {found.problem}"
    wall, cpu = ([100 * end for end in (one.effect, one.low, one.high)] for one in (found.wall, found.cpu))
    return (
        f"{word:9} {wall[0]:+.2f} % ({wall[1]:+.2f} … {wall[2]:+.2f}), processor {cpu[0]:+.2f} % ({cpu[1]:+.2f} … "
        f"{cpu[2]:+.2f}), {1000 * found.step_s[0]:.1f} ms, {found.rounds} rounds, {found.seconds:.0f} s, load "
        f"{found.load:.1f}, compiles {sum(one.count for one in found.compiles[1])}"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--batch", type=int, default=16)
    given = parser.parse_args(argv)
    print(describe_machine(("numpy", "scipy", "jax")))
    for name, line in PLANTS.items():
        if not re.search(given.only, name):
            continue
        words = Counter[str]()
        for _ in range(given.times):
            word, found = take_trial(line, given.batch, given.limit)
            words[word] += 1
            print(f"{name:30} {describe(word, found)}", flush=True)
        print(f"{name}: {dict(words)}; different {show_share(words['different'], given.times)} %")


if __name__ == "__main__":
    main()
