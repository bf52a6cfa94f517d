"""Counts false alarms of equal runs and detections of slower runs on unsteady machines.

    nice python -m benchmarks.verdict_regimes [--trials 300] [--only clocks]

A regime is a kind of machine with its noise. The verdict's rule was not tuned for these regimes: a GPU in one of two
clock states, a GPU that throttles from a random step on, clocks that flip inside a run, arms on two TPU slices or two
days, logs without tokens per second (which give the seconds more digits), step times with log-normal noise. Every trial
draws new runs of both arms, rounds their times as a log prints them, and takes the verdict of
`tasks.diff.judge.time_rows`. Histories of 8 and 20 pairs are drawn from the same regime. A change slows every step of
the candidate.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.verdict_power import RULES, TOKENS, Draw, Rng, Values, draw_past, draw_tpu, make_arms
from benchmarks.verdict_power import Cell as Shape
from configs.frozen import Frozen
from configs.verdict_rules import DeviceKind
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.circumstances import Circumstances
from tasks.diff.examine.noise import Past
from tasks.diff.judge.time_rows import decide_levels
from tasks.metrics.merged_steps import PRINTED_UNIT_S, refine_seconds
from tasks.metrics.step_time_levels import find_levels
from tasks.metrics.time_metrics import STEP_TIME
from tasks.records.plan import RunPlan
from tasks.records.run_facts import StepLevels

STEPS = 100
PAIRS = (0, 8, 20)
HISTORIES = 30
RUNS = (1, 3, 5)
PLAN = RunPlan(
    comparison="places", case="01", arm="a", repeat=0, trainer="maxview", target="bench", backend="local", config={},
    origins={}, commit=None, dirty=False, versions={}, environment={}, argv=(), time_limit_s=60, run_name="r",
    directory="", identity="",
)  # fmt: skip


class Regime(Frozen):
    """A kind of machine, how its runs are drawn, and the changes whose detection rate is reported."""

    device: DeviceKind
    draw: Draw
    changes: tuple[float, ...]
    arms_sd: float = 0.0  # standard deviation of the effect of an arm's place or day, as a share of the step time
    days: bool = False  # the arms ran on two days
    placed: bool = False  # both arms are known to have run on one machine
    rate: bool = True  # the log has tokens per second


def draw_quiet(rng: Rng, runs: int, steps: int) -> Values:
    """Runs scatter by 0.2 %, steps by 0.1 %, and nothing stalls."""
    return 0.25 * np.exp(rng.normal(0, 0.002, (runs, 1)) + rng.normal(0, 0.001, (runs, steps)))


def draw_gpu(rng: Rng, runs: int, steps: int) -> Values:
    """Runs scatter by 1 %, and grow up to 2 % slower as the device warms up."""
    warm = rng.uniform(0, 0.02, (runs, 1)) * (1 - np.exp(-np.arange(steps) / 30))
    return 0.4 * np.exp(rng.normal(0, 0.01, (runs, 1)) + warm + rng.normal(0, 0.005, (runs, steps)))


def draw_clocks(rng: Rng, runs: int, steps: int, *, apart: float = 0.06, scatter: float = 0.004) -> Values:
    """Each run has one of two clock states."""
    slow = rng.random((runs, 1)) < 0.5
    return 0.4 * np.exp(apart * slow + rng.normal(0, scatter, (runs, 1)) + rng.normal(0, 0.004, (runs, steps)))


def draw_throttled(rng: Rng, runs: int, steps: int, *, by: float = 0.15) -> Values:
    """Half of the runs take longer from a random step on."""
    since = np.where(rng.random((runs, 1)) < 0.5, rng.integers(0, steps, (runs, 1)), steps)
    slow = np.arange(steps) >= since
    return 0.4 * np.exp(by * slow + rng.normal(0, 0.006, (runs, 1)) + rng.normal(0, 0.005, (runs, steps)))


def draw_flips(rng: Rng, runs: int, steps: int, *, rate: float = 0.02) -> Values:
    """Two clock states, 6 % apart, that flip at random steps of a run."""
    flips = rng.random((runs, steps)) < rate
    slow = (np.cumsum(flips, axis=1) + (rng.random((runs, 1)) < 0.5)) % 2
    return 0.4 * np.exp(0.06 * slow + rng.normal(0, 0.005, (runs, 1)) + rng.normal(0, 0.005, (runs, steps)))


def draw_drift(rng: Rng, runs: int, steps: int) -> Values:
    """Each run becomes slower or quicker, by up to 8 %."""
    slope = rng.uniform(-0.08, 0.08, (runs, 1)) * np.arange(steps) / steps
    return 0.4 * np.exp(slope + rng.normal(0, 0.008, (runs, 1)) + rng.normal(0, 0.005, (runs, steps)))


def draw_lognormal(rng: Rng, runs: int, steps: int) -> Values:
    """Steps scatter by 10 %, and now and then a step takes several times as long."""
    tail = np.exp(rng.normal(0, 0.1, (runs, steps)) + np.abs(rng.standard_t(3, (runs, steps))) * 0.03)
    return np.asarray(0.4 * np.exp(rng.normal(0, 0.008, (runs, 1))) * tail)


def draw_seventy(rng: Rng, runs: int, steps: int) -> Values:
    """Steps of about 0.07 s. A log without tokens per second prints them with two digits."""
    level = rng.uniform(0.0695, 0.0715)
    return level * np.exp(rng.normal(0, 0.0025, (runs, 1)) + rng.normal(0, 0.003, (runs, steps)))


REGIMES: dict[str, Regime] = {
    "quiet": Regime(device="tpu", draw=draw_quiet, changes=(0.02, 0.05)),
    "stalls": Regime(device="tpu", draw=draw_tpu, changes=(0.05,)),
    "gpu": Regime(device="gpu", draw=draw_gpu, changes=(0.05,)),
    "gpu, placed": Regime(device="gpu", draw=draw_gpu, changes=(0.05,), placed=True),
    "lognormal": Regime(device="gpu", draw=draw_lognormal, changes=(0.05,)),
    "clocks": Regime(device="gpu", draw=draw_clocks, changes=(0.1,), placed=True),
    "clocks-3": Regime(device="gpu", draw=partial(draw_clocks, apart=0.03, scatter=0.008), changes=(0.1,), placed=True),
    "throttled": Regime(device="gpu", draw=draw_throttled, changes=(0.1,), placed=True),
    "flips": Regime(device="gpu", draw=draw_flips, changes=(0.1,), placed=True),
    "flips-often": Regime(device="gpu", draw=partial(draw_flips, rate=0.08), changes=(0.1,), placed=True),
    "drift": Regime(device="gpu", draw=draw_drift, changes=(0.1,), placed=True),
    "slices": Regime(device="tpu", draw=draw_quiet, changes=(0.05,), arms_sd=0.005),
    "days": Regime(device="tpu", draw=draw_quiet, changes=(0.05,), arms_sd=0.005, days=True),
    "0.07 s": Regime(device="tpu", draw=draw_seventy, changes=(0.05,), rate=False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--only", choices=REGIMES, nargs="*")
    arguments = parser.parse_args()
    print(describe_machine(("numpy", "scipy", "polars")))
    print("% of the trials | equal: different, same | slower by: found, same")
    for name in arguments.only or REGIMES:
        for runs in RUNS:
            for line in judge_regime(name, runs, arguments.trials):
                print(line, flush=True)


def judge_regime(name: str, runs: int, trials: int) -> Iterator[str]:
    """Yield one line per length of history."""
    regime = REGIMES[name]
    rng = np.random.default_rng(runs)
    arms = make_arms(Shape(regime=name, device=regime.device, runs=runs, steps=STEPS, changes=()), apart=regime.days)
    arms = (place(arms[0]), place(arms[1])) if regime.placed else arms
    pasts = {pairs: list(draw_pasts(regime, pairs, rng)) for pairs in PAIRS}
    said: dict[tuple[int, float], Counter[str]] = {}
    for trial in range(trials):
        sides = draw_arms(regime, rng, runs)
        for change in (0.0, *regime.changes):
            levels = read(regime, sides[0]), read(regime, sides[1] * (1 + change))
            for pairs, known in pasts.items():
                word = judge(arms, levels, known[trial % len(known)])
                said.setdefault((pairs, change), Counter())[word] += 1
    for pairs in PAIRS:
        shares = [f"{name:12}{runs:3} runs {pairs:3} pairs |"]
        for change in (0.0, *regime.changes):
            words = said[pairs, change]
            different = words["regressed"] + words["improved"] if not change else words["regressed"]
            head = f"  {change:+4.0%}" if change else ""
            shares.append(f"{head}{100 * different / trials:6.1f}{100 * words['same'] / trials:6.1f}")
        yield "".join(shares)


def place(arm: ArmRuns) -> ArmRuns:
    """Return the arm with a plan in its runs, as if our own launcher had run them."""
    runs = tuple(run.replace(plan=PLAN) for run in arm.runs)
    return arm.replace(runs=runs)


def draw_arms(regime: Regime, rng: Rng, runs: int) -> Values:
    """Return the seconds of both arms, made in turns: [2, runs, steps]."""
    seconds = regime.draw(rng, 2 * runs, STEPS)
    place = np.exp(rng.normal(0, regime.arms_sd, (2, 1, 1))) if regime.arms_sd else np.ones((2, 1, 1))
    return np.stack([seconds[::2], seconds[1::2]]) * place


def draw_pasts(regime: Regime, pairs: int, rng: Rng) -> Iterator[dict[str, Past]]:
    """Yield several histories with this number of pairs, as the store would keep them."""
    if not pairs:
        yield {}
        return
    for _ in range(HISTORIES):
        yield draw_past(read(regime, regime.draw(rng, 2 * pairs, STEPS)))


def read(regime: Regime, seconds: Values) -> list[StepLevels]:
    """Return the levels of runs whose seconds are rounded as a log prints them."""
    found = []
    for run in seconds:
        fine, unit = np.round(run, 3), PRINTED_UNIT_S
        if regime.rate:
            fine, unit = refine_seconds(fine, np.round(TOKENS / run, 3))
        found.append(find_levels(fine, unit=unit))
    return [levels for levels in found if levels]


def judge(arms: Arms, levels: tuple[list[StepLevels], list[StepLevels]], past: dict[str, Past]) -> str:
    """Return the verdict on the step time."""
    return decide_levels(levels, STEP_TIME, arms, RULES, Circumstances(past=past)).verdict


if __name__ == "__main__":
    main()
