"""Times `maxview compare main-vs-branch --only …` after one-line edits: whole commands, in a clone of this repository.

    uv run python -m benchmarks.answer_time [--only function] [--rounds 3] [--edit changes|rounds]

Each round has a store of its own and two edits on one baseline: the second one finds the baseline's recording, compiled
programs and explanation. An earlier command has made environments and checkouts, and its server is idle. Prints the
seconds until the first word and until the end, wall and processor (of all processes), with the load.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import psutil

from benchmarks.machine import describe_machine

ROOT = Path(__file__).parent.parent
FILE = Path("model", "decoder", "layers.py")
NORM = "wide * jax.lax.rsqrt(mean_square + epsilon)"
EDITS = {
    "changes": "wide * jax.lax.rsqrt(mean_square + {number} * epsilon)",
    "rounds": "{number} * (wide / jnp.sqrt(mean_square + epsilon)) / {number}",
}
WORDS = ("≠ CHANGED", "= SAME", "✗ REGRESSED", "✓ IMPROVED", "? UNKNOWN")  # begin a verdict's first line
SAMPLE_S = 0.2


class Spent(NamedTuple):
    """Seconds since a command began: of the wall clock, and of processors."""

    wall_s: float
    cpu_s: float


class Timing(NamedTuple):
    """When a command printed its first word, and when it ended."""

    word: Spent
    end: Spent


class ProcessorTime:
    """The processor seconds of a process and of all that it starts, sampled while they live."""

    def __init__(self, pid: int):
        self.pid, self.seconds, self.is_over = pid, dict[tuple[int, float], float](), Event()
        self.thread = Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        while not self.is_over.wait(SAMPLE_S):
            try:
                first = psutil.Process(self.pid)
                for one in (first, *first.children(recursive=True)):
                    spent = one.cpu_times()
                    self.seconds[one.pid, one.create_time()] = spent.user + spent.system
            except psutil.Error:
                continue

    @property
    def total(self) -> float:
        return sum(list(self.seconds.values()))


def run(clone: Path, out: Path, only: str) -> Timing:
    """Run the command in the clone; exit with its output if it prints no verdict."""
    argv = [sys.executable, "-m", "flows.cli", "compare", "main-vs-branch", "--only", only, "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    began, word, printed = time.monotonic(), None, []
    process = subprocess.Popen(
        argv, cwd=clone, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    spent = ProcessorTime(process.pid)
    assert process.stdout is not None
    for line in process.stdout:
        printed.append(line)
        if word is None and line.startswith(WORDS):
            word = Spent(time.monotonic() - began, spent.total)
    process.wait()
    spent.is_over.set()
    if word is None:
        sys.exit(f"no verdict:\n{''.join(printed)}")
    return Timing(word, Spent(time.monotonic() - began, spent.total))


def main() -> None:
    """Print a row per edit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="function")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edit", choices=EDITS, default="changes")
    given = parser.parse_args()
    print(describe_machine())
    found: dict[str, list[Timing]] = {"first edit": [], "second edit": []}
    with tempfile.TemporaryDirectory() as folder:
        clone, out = Path(folder, "clone"), Path(folder, "out")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        subprocess.run(["git", "checkout", "--quiet", "-B", "main"], cwd=clone, check=True)
        text = (clone / FILE).read_text(encoding="utf-8")
        assert text.count(NORM) == 1
        for number in range(given.rounds + 1):
            for place, name in enumerate(found):
                edit = EDITS[given.edit].format(number=1 + (2 * number + place + 1) / 8)
                (clone / FILE).write_text(text.replace(NORM, edit), encoding="utf-8")
                timing = run(clone, out / str(number), given.only)
                if number:  # the first round makes environments and checkouts
                    found[name].append(timing)
                    show(f"{name}, load {os.getloadavg()[0]:.1f}", [timing])
    for name, timings in found.items():
        show(f"{name}, median", timings)


def show(name: str, timings: list[Timing]) -> None:
    """Print the medians of several commands."""
    word, end = ([statistics.median(one) for one in zip(*parts, strict=True)] for parts in zip(*timings, strict=True))
    print(
        f"{name:24} first word {word[0]:6.1f} s ({word[1]:5.1f} s of processors), "
        f"end {end[0]:6.1f} s ({end[1]:5.1f} s)",
        flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
