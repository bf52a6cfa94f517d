"""Counts false alarms and detections of two programs that take turns, on simulated machines and with real recordings.

    nice python -m benchmarks.interleaved [--trials 200] [--only clocks]
    python -m benchmarks.interleaved --real [--more 1] [--busy 2] [--limit 60]
    python -m benchmarks.interleaved --recordings FOLDER [--candidate FOLDER] [--trials 20] [--limit 60] [--busy 2]

Simulated: every regime of `benchmarks.verdict_regimes` as one process that runs both programs, and three more. A trial
is a new process with new executables, which differ by 0.4 % (standard deviation). The steps of a regime are drawn as
one run, in whose order the programs take their turns; a change slows every step of the candidate.

`--real` records the tiny model's step and runs it against itself until the limit. Then it resamples the measured draws
with replacement into 200 trials, each with a random sign, because both programs are one, and each with the time limit
of the original: a word other than *same* or *unknown* is a false alarm. With 3 or 6 % added to every draw, a word other
than *different* is a miss. `--more 1` gives the candidate 33 sequences instead of 32, a real change of about 3 %.

With recordings (folders that `maxview compare … --only time` leaves in a comparison's `experiments/`): each trial is a
real process. Without a candidate both programs are the baseline's: every difference is a false alarm. `--busy` starts
that many busy loops beside them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.same_function import plan_of
from benchmarks.verdict_power import Rng, Values
from benchmarks.verdict_regimes import REGIMES
from tasks.diff.program_time_rows import STATED
from tasks.experiments.inside.paired_times import Interval, Rule, interval_at, is_decided, looks, ratio_of
from tasks.experiments.recordings import SIDES, record_arms
from tasks.experiments.run_inside import START

CHANCE = 0.01
RULE = Rule(CHANCE, log1p(STATED.relative or 0.0), log1p(STATED.least or 0.0))
EXECUTABLES = 0.004  # standard deviation of the step times of one program's executables
ROUNDS = 16  # of a draw
MOST = 3000  # steps of a trial, both programs together
CHANGES = (0.0, 0.02)

type Draw = Callable[[Rng, int], Values]


def draw_neighbour(rng: Rng, steps: int) -> Values:
    """Another process takes half of the processor for bursts of about 30 steps."""
    busy = (np.cumsum(rng.random(steps) < 1 / 30) + (rng.random() < 0.5)) % 2
    return 0.1 * np.exp(np.log(2.0) * busy + rng.normal(0, 0.02, steps))


def draw_alternating(rng: Rng, steps: int) -> Values:
    """Every second step takes 4 % longer, as with two buffers in turns: a fixed order would blame one program."""
    return 0.1 * np.exp(0.04 * (np.arange(steps) % 2) + rng.normal(0, 0.005, steps))


def draw_saves(rng: Rng, steps: int) -> Values:
    """Every tenth step or so takes three times as long."""
    return 0.1 * np.where(rng.random(steps) < 0.1, 3.0, 1.0) * np.exp(rng.normal(0, 0.005, steps))


def simulated() -> dict[str, Draw]:
    """Return the regimes as functions of one process."""

    def of(name: str) -> Draw:
        return lambda rng, steps: REGIMES[name].draw(rng, 1, steps)[0]

    others: dict[str, Draw] = {"neighbour": draw_neighbour, "alternating": draw_alternating, "saves": draw_saves}
    return {name: of(name) for name in REGIMES} | others


def take_turns(draw: Draw, rng: Rng, change: float) -> tuple[str, Interval, int]:
    """Return the word, the last interval and the number of steps of one trial."""
    line, ratios, look = draw(rng, MOST), list[float](), 0
    due = looks(MOST)
    found = Interval(0.0, -np.inf, np.inf)
    for begin in range(0, MOST - 2 * ROUNDS + 1, 2 * ROUNDS):
        pairs = line[begin : begin + 2 * ROUNDS].reshape(ROUNDS, 2)
        swapped = rng.random(ROUNDS) < 0.5
        own = np.exp(rng.normal(0, EXECUTABLES, 2))
        left = np.where(swapped, pairs[:, 1], pairs[:, 0]) * own[0]
        right = np.where(swapped, pairs[:, 0], pairs[:, 1]) * own[1] * (1 + change)
        ratios.append(ratio_of(left, right))
        if len(ratios) == due[look]:
            look += 1
            found = interval_at(ratios, look, CHANCE)
            if is_decided(found, RULE):
                return name_verdict(found), found, begin + 2 * ROUNDS
    found = interval_at(ratios, None, CHANCE)
    return name_verdict(found), found, MOST


def name_verdict(found: Interval) -> str:
    """Return "different", "same" or "unknown", as `tasks.diff.program_time_rows` decides."""
    if (found.low > 0 or found.high < 0) and abs(found.effect) >= RULE.least:
        return "different"
    return "same" if is_decided(found, RULE) else "unknown"


def simulate(name: str, draw: Draw, trials: int) -> str:
    """Return a line: the share of words and the median number of steps, for equal programs and for a change."""
    parts = [f"{name:12}|"]
    for change in CHANGES:
        rng = np.random.default_rng([len(name), round(1000 * change)])
        done = [take_turns(draw, rng, change) for _ in range(trials)]
        shares = [100 * sum(word == wanted for word, _, _ in done) / trials for wanted in ("different", "same")]
        steps = float(np.median([steps for _, _, steps in done]))
        parts.append(f" {change:+3.0%} different {shares[0]:5.1f} same {shares[1]:5.1f} steps {steps:5.0f} |")
    return "".join(parts)


@contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Run busy loops beside the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def measure(baseline: Path, candidate: Path, limit_s: float, *, stops: bool) -> dict[str, Any]:
    """Return the result of one process with both programs. stops: when decided; else it runs to the limit."""
    with tempfile.TemporaryDirectory() as folder:
        settings, result = Path(folder, "settings.json"), Path(folder, "result.json")
        tolerance = RULE.tolerance if stops else 0.0
        given = {
            "baseline": str(baseline), "candidate": str(candidate), "names": ["baseline", "candidate"],
            "limit_s": limit_s, "chance": CHANCE, "tolerance": tolerance, "least": RULE.least if stops else 9.0,
        }  # fmt: skip
        settings.write_text(json.dumps(given))
        argv = [sys.executable, "-W", "ignore", str(START), "take_turns", str(settings), str(result)]
        subprocess.run(argv, check=True, stderr=subprocess.DEVNULL, env=os.environ | {"JAX_PLATFORMS": "cpu"})
        return dict(json.loads(result.read_text()))


def record(folder: Path, more: int) -> tuple[Path, Path]:
    """Record the tiny model's step with 32 sequences, and with `more` sequences; return both folders."""
    plans = [plan_of("01_base", (f"per_device_batch_size={32 + extra}",), "cpu", folder) for extra in (0, more)]
    record_arms((plans[0], plans[1]), (folder / SIDES[0], folder / SIDES[1]))
    return folder / SIDES[0], folder / SIDES[1]


def resample(ratios: Sequence[float], change: float, rng: Rng) -> str:
    """Return the word of a trial with as many draws as were measured, drawn from them."""
    signs = rng.choice([-1.0, 1.0], len(ratios))
    drawn = (rng.choice(ratios, len(ratios)) * signs + log1p(change)).tolist()
    for look, draws in enumerate(looks(len(drawn)), start=1):
        found = interval_at(drawn[:draws], look, CHANCE)
        if is_decided(found, RULE):
            return name_verdict(found)
    return name_verdict(interval_at(drawn, None, CHANCE))


def measure_real(arguments: argparse.Namespace) -> None:
    """Print the interval of one run to the limit, and the shares of words among resampled trials."""
    with tempfile.TemporaryDirectory() as folder:
        both = record(Path(folder), arguments.more)
        with busy_loops(arguments.busy):
            found = measure(*both, arguments.limit, stops=False)
    print(describe(found), flush=True)
    rng = np.random.default_rng(1)
    for change in () if arguments.more else (0.0, 0.03, 0.06):
        words = Counter(resample(found["ratios"], change, rng) for _ in range(arguments.trials))
        print(f"{arguments.trials} resampled trials, {change:+.0%}: {dict(words)}")


def describe(found: dict[str, Any]) -> str:
    """Return one trial's result as a line."""
    effect, low, high = (100 * np.expm1(one) for one in found["wall"])
    word = name_verdict(Interval(*found["wall"]))
    return (
        f"{word:9} {effect:+.2f} % ({low:+.2f} … {high:+.2f}), {found['draws']} draws, {found['rounds']} rounds, "
        f"{found['seconds']:.0f} s, load {found['load']:.1f}, processor time {100 * np.expm1(found['cpu'][0]):+.2f} %"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--only", choices=simulated(), nargs="*")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--more", type=int, default=0)
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--candidate", type=Path)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--whole", action="store_true", help="run to the limit: the width of the interval")
    arguments = parser.parse_args(argv)
    print(describe_machine(("numpy", "scipy", "jax")))
    if arguments.real:
        measure_real(arguments)
        return
    if arguments.recordings is None:
        print(f"% of {arguments.trials} trials, at most {MOST} steps")
        for name in arguments.only or simulated():
            print(simulate(name, simulated()[name], arguments.trials), flush=True)
        return
    candidate = arguments.candidate or arguments.recordings
    with busy_loops(arguments.busy):
        for _ in range(arguments.trials):
            print(
                describe(measure(arguments.recordings, candidate, arguments.limit, stops=not arguments.whole)),
                flush=True,
            )


if __name__ == "__main__":
    main()
