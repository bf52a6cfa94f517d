"""Counts false alarms and detections of two programs that take turns, on simulated machines and with real recordings.

    nice python -m benchmarks.interleaved [--trials 200] [--only clocks]
    python -m benchmarks.interleaved --real [--times 1] [--busy 2] [--limit 60] [--folder FOLDER]
    python -m benchmarks.interleaved --real --more 3 [--times 40] [--busy 2] [--limit 60] [--folder FOLDER]
    python -m benchmarks.interleaved --recordings FOLDER [--candidate FOLDER] [--times 20] [--busy 2] [--limit 60]

Simulated: every regime of `benchmarks.verdict_regimes` as one process that runs both programs, and three more. A trial
is a new process with new executables, which differ by 0.4 % (standard deviation). The steps of a regime are drawn as
one run, in whose order the programs take their turns; a change slows every step of the candidate.

`--real` records the tiny model's step and runs it against itself, in `--times` processes, each until the limit: every
difference is a false alarm. The words are those of the stopping rule, which looks at the draws as they came. Then all
measured draws are resampled with replacement into trials of the same length, each draw with a random sign, because both
programs are one; with 3 or 6 % added to every draw, a word other than *different* is a miss.

`--more PERCENT` plants a product of matrices at the end of the candidate's step, so large that the step takes that much
longer. Its size comes from turns with a large product, and the median draw of all trials is
printed, as what was really planted. Each trial is a process that stops as soon as the rule decides.

With recordings (folders that `maxview compare … --only time` leaves in a comparison's `experiments/`), each trial is
such a process, too. `--busy` starts that many busy loops beside them. Shares have 95 % intervals (Clopper–Pearson).
`--folder` keeps the recording and the planted program for the next call.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import expm1, log1p
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest  # type: ignore[import-untyped]

from benchmarks.machine import describe_machine
from benchmarks.same_function import plan_of
from benchmarks.verdict_power import Rng, Values
from benchmarks.verdict_regimes import REGIMES
from maxview_probe.evaluate.recorded_step import RecordedStep
from maxview_probe.inject import START
from maxview_probe.observe.observation_files import PROGRAM
from maxview_probe.turns.paired_times import Interval, Rule, interval_at, is_decided, looks, ratio_of
from tasks.diff.judge.program_time_rows import STATED
from tasks.experiments.recordings import SIDES, record_arm

CHANCE = 0.01
RULE = Rule(CHANCE, log1p(STATED.relative or 0.0), log1p(STATED.least or 0.0))
EXECUTABLES = 0.004  # standard deviation of the step times of one program's executables
ROUNDS = 16  # of a draw
MOST = 3000  # steps of a trial, both programs together
CHANGES = (0.0, 0.02)
CALIBRATION_S = 60.0  # of turns that measure a product of MEASURED_ROWS
MEASURED_ROWS = 4096

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
    """Return "different", "same" or "unknown", as `tasks.diff.judge.program_time_rows` decides."""
    if (found.low > 0 or found.high < 0) and abs(found.effect) >= RULE.least:
        return "different"
    return "same" if is_decided(found, RULE) else "unknown"


def show_share(found: int, trials: int) -> str:
    """Return a share in percent with its 95 % interval (Clopper–Pearson)."""
    ends = binomtest(found, trials).proportion_ci(0.95, "exact")
    return f"{100 * found / trials:5.1f} ({100 * ends.low:.1f}–{100 * ends.high:.1f})"


def simulate(name: str, draw: Draw, trials: int) -> str:
    """Return a line: the share of words and the median number of steps, for equal programs and for a change."""
    parts = [f"{name:12}|"]
    for change in CHANGES:
        rng = np.random.default_rng([len(name), round(1000 * change)])
        done = [take_turns(draw, rng, change) for _ in range(trials)]
        shares = [show_share(sum(word == wanted for word, _, _ in done), trials) for wanted in ("different", "same")]
        steps = float(np.median([steps for _, _, steps in done]))
        parts.append(f" {change:+3.0%} different {shares[0]} same {shares[1]} steps {steps:5.0f} |")
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
        argv = [sys.executable, "-W", "ignore", str(START), "turns.take_turns", str(settings), str(result)]
        subprocess.run(argv, check=True, stderr=subprocess.DEVNULL, env=os.environ | {"JAX_PLATFORMS": "cpu"})
        return dict(json.loads(result.read_text()))


def record(folder: Path) -> Path:
    """Record the tiny model's step with 32 sequences, unless it is there; return the recording's folder."""
    plan = plan_of("01_base", ("per_device_batch_size=32",), "cpu", folder)
    record_arm(plan, folder / SIDES[0])
    return folder / SIDES[0]


_RETURN = re.compile(r"^ +return (%.*) : ", re.MULTILINE)  # of the public function, which is the first one
WIDTH = 512  # columns of the planted matrix


def plant_product(recording: Path, planted: Path, rows: int) -> Path:
    """Copy a recording, with a product of a matrix of `rows` × WIDTH by itself at the end of its step.

    The matrix contains the first result that is a scalar, and this result contains the product's maximum × 1e-30: so
    the compiler keeps the product, and it can neither begin early nor be computed at compile time.
    """
    if planted.exists():
        shutil.rmtree(planted)
    shutil.copytree(recording, planted)
    step = RecordedStep(recording)
    place = next(n for n, one in enumerate(step.outputs) if (one.shape, one.type) == ((), "f32"))
    found = _RETURN.search(step.text)
    assert found is not None
    names = found[1].split(", ")
    matrix, square = f"tensor<{rows}x{WIDTH}xf32>", f"tensor<{WIDTH}x{WIDTH}xf32>"
    lines = f"""    %planted_counts = stablehlo.iota dim = 0 : {matrix}
    %planted_result = stablehlo.broadcast_in_dim {names[place]}, dims = [] : (tensor<f32>) -> {matrix}
    %planted_matrix = stablehlo.add %planted_counts, %planted_result : {matrix}
    %planted_product = stablehlo.dot_general %planted_matrix, %planted_matrix, contracting_dims = [0] x [0] : \
({matrix}, {matrix}) -> {square}
    %planted_least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %planted_largest = stablehlo.reduce(%planted_product init: %planted_least) applies stablehlo.maximum \
across dimensions = [0, 1] : ({square}, tensor<f32>) -> tensor<f32>
    %planted_tiny = stablehlo.constant dense<1.000000e-30> : tensor<f32>
    %planted_scaled = stablehlo.multiply %planted_largest, %planted_tiny : tensor<f32>
    %planted = stablehlo.add {names[place]}, %planted_scaled : tensor<f32>
"""
    names[place] = "%planted"
    text = f"{step.text[: found.start()]}{lines}    return {', '.join(names)} : {step.text[found.end() :]}"
    (planted / PROGRAM).write_bytes(gzip.compress(text.encode()))
    return planted


def plant(recording: Path, planted: Path, percent: float, limit_s: float) -> Path:
    """Return a recording whose step takes `percent` longer, by a product whose size turns have measured."""
    found = measure(recording, plant_product(recording, planted, MEASURED_ROWS), limit_s, stops=False)
    longer = expm1(statistics.median(found["ratios"]))
    rows = max(round(MEASURED_ROWS * percent / 100 / longer), 8)
    print(f"a product of {MEASURED_ROWS} rows takes {longer:.2%} of the step; {rows} are planted", flush=True)
    return plant_product(recording, planted, rows)


def judge(ratios: Sequence[float]) -> str:
    """Return the word of the stopping rule, which looks at the draws as they came."""
    for look, draws in enumerate(looks(len(ratios)), start=1):
        found = interval_at(ratios[:draws], look, CHANCE)
        if is_decided(found, RULE):
            return name_verdict(found)
    return name_verdict(interval_at(ratios, None, CHANCE))


def measure_itself(recording: Path, arguments: argparse.Namespace) -> None:
    """Print the intervals of a program against itself, each at the limit, and the words of resampled trials."""
    words, measured = Counter[str](), []
    for _ in range(arguments.times):
        found = measure(recording, recording, arguments.limit, stops=False)
        measured.append(found["ratios"])
        words[judge(found["ratios"])] += 1
        print(describe(found), flush=True)
    print(f"{arguments.times} real trials: {dict(words)}")
    rng = np.random.default_rng(1)
    for change in (0.0, 0.03, 0.06):
        words = Counter(
            judge((rng.choice(ratios, len(ratios)) * rng.choice([-1.0, 1.0], len(ratios)) + log1p(change)).tolist())
            for ratios in measured
            for _ in range(arguments.trials)
        )
        total = words.total()
        print(f"{total} resampled trials, {change:+.0%}: different {show_share(words['different'], total)} %")


def measure_pair(baseline: Path, candidate: Path, arguments: argparse.Namespace) -> None:
    """Print the words of real trials, each of which ends when the rule decides."""
    words, ratios = Counter[str](), list[float]()
    for _ in range(arguments.times):
        found = measure(baseline, candidate, arguments.limit, stops=True)
        ratios += found["ratios"]
        words[name_verdict(Interval(*found["wall"]))] += 1
        print(describe(found), flush=True)
    share = show_share(words["different"], arguments.times)
    print(f"{arguments.times} real trials: different {share} %; median draw {expm1(statistics.median(ratios)):+.2%}")


def measure_real(folder: Path, arguments: argparse.Namespace) -> None:
    """Record the tiny model's step, and time it against itself, or against its copy with a planted product."""
    recording = record(folder)
    if not arguments.more:
        with busy_loops(arguments.busy):
            measure_itself(recording, arguments)
        return
    planted = folder / f"planted-{arguments.more:g}"
    if not planted.exists():
        plant(recording, planted, arguments.more, CALIBRATION_S)
    with busy_loops(arguments.busy):
        measure_pair(recording, planted, arguments)


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
    parser.add_argument("--trials", type=int, default=200, help="simulated or resampled")
    parser.add_argument("--times", type=int, default=1, help="real trials")
    parser.add_argument("--only", choices=simulated(), nargs="*")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--more", type=float, default=0.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--candidate", type=Path)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--busy", type=int, default=0)
    arguments = parser.parse_args(argv)
    print(describe_machine(("numpy", "scipy", "jax")))
    if arguments.real:
        with tempfile.TemporaryDirectory() as folder:
            measure_real(arguments.folder or Path(folder), arguments)
    elif arguments.recordings:
        with busy_loops(arguments.busy):
            measure_pair(arguments.recordings, arguments.candidate or arguments.recordings, arguments)
    else:
        print(f"% of {arguments.trials} trials, at most {MOST} steps")
        for name in arguments.only or simulated():
            print(simulate(name, simulated()[name], arguments.trials), flush=True)


if __name__ == "__main__":
    main()
