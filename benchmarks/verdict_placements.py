"""Counts how often the verdict is "same" though the candidate's mean step is longer, by the place of the lost time.

    nice python -m benchmarks.verdict_placements [--trials 20] [--by 1.3]

Every trial writes logs as MaxText prints them, with the date of each line, and reads them with maxview's reader. The
candidate's mean step is `--by` times as long as the baseline's: because of stalls, a slow loader, gaps between the
printed seconds, or slow first steps. All other steps are as long as the baseline's. The last line is the price: equal
arms whose verdict is not "same".

The functions of places return the lost seconds of each step: (within the printed seconds, after them). extra: the
seconds to lose per step, on average.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.verdict_power import RULES, Rng, Values
from benchmarks.verdict_regimes import PLAN
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.records.run import RunRecord
from tasks.scrape.read_log import scrape_run

STEPS, STEP_S, TOKENS = 50, 0.25, 2048
START = datetime(2026, 11, 16, 8)
WORDS = ("same", "unknown", "regressed", "improved")


def nowhere(rng: Rng, extra: float) -> tuple[Values, Values]:
    """Lose no time."""
    return np.zeros(STEPS), np.zeros(STEPS)


def at_steps(rng: Rng, extra: float, *, every: int) -> tuple[Values, Values]:
    """Lose time in every n-th step."""
    return spread(np.arange(STEPS) % every == every - 1, extra), np.zeros(STEPS)


def at_once(rng: Rng, extra: float, *, steps: int) -> tuple[Values, Values]:
    """Lose time in a few random steps."""
    return spread(np.isin(np.arange(STEPS), rng.choice(STEPS, steps, replace=False)), extra), np.zeros(STEPS)


def first(rng: Rng, extra: float, *, share: float) -> tuple[Values, Values]:
    """Lose time in the first steps after compilation."""
    return spread(np.arange(STEPS) < share * STEPS, extra), np.zeros(STEPS)


def last(rng: Rng, extra: float) -> tuple[Values, Values]:
    """Lose time in the last tenth of the steps."""
    return spread(np.arange(STEPS) >= 0.9 * STEPS, extra), np.zeros(STEPS)


def loader(rng: Rng, extra: float) -> tuple[Values, Values]:
    """Lose time in a random fifth of the steps, each by another amount."""
    waits = rng.exponential(size=STEPS) * (rng.random(STEPS) < 0.2)
    waits[0] += 1e-3
    return extra * STEPS * waits / waits.sum(), np.zeros(STEPS)


def between(rng: Rng, extra: float, *, every: int) -> tuple[Values, Values]:
    """Lose time after every n-th step, outside of the printed seconds."""
    return np.zeros(STEPS), spread(np.arange(STEPS) % every == 0, extra)


def spread(where: NDArray[np.bool_], extra: float) -> Values:
    """Return the lost seconds of each step: `extra` on average, in equal parts at the steps marked in `where`."""
    return np.where(where, extra * STEPS / where.sum(), 0.0)


PLACES: dict[str, Callable[[Rng, float], tuple[Values, Values]]] = {
    "every 5th step": partial(at_steps, every=5), "every 6th step": partial(at_steps, every=6),
    "every 25th step": partial(at_steps, every=25), "one step": partial(at_once, steps=1),
    "three steps": partial(at_once, steps=3), "first tenth": partial(first, share=0.1),
    "first fifth": partial(first, share=0.2), "last tenth": last, "loader": loader,
    "between all steps": partial(between, every=1), "between, every 10th": partial(between, every=10),
    "equal arms": nowhere,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--by", type=float, default=1.3)
    arguments = parser.parse_args()
    print(f"{'':20} runs | " + " ".join(f"{word:>9}" for word in WORDS))
    for name in PLACES:
        for runs in (1, 3):
            said = Counter(judge_trials(name, runs, arguments.trials, arguments.by))
            print(f"{name:20} {runs:4} | " + " ".join(f"{said[word]:9}" for word in WORDS), flush=True)


def judge_trials(name: str, runs: int, trials: int, by: float) -> Iterator[str]:
    """Yield the verdict on the step time of each trial."""
    rng = np.random.default_rng(runs)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(trials):
            sides: dict[str, list[RunRecord]] = {"a": [], "b": []}
            for number in range(2 * runs):
                arm = "ab"[number % 2]
                lost = PLACES[name](rng, STEP_S * (by - 1)) if arm == "b" else nowhere(rng, 0.0)
                seconds = STEP_S * np.exp(rng.normal(0, 0.002) + rng.normal(0, 0.001, STEPS)) + lost[0]
                path = Path(folder) / f"{arm}{number}.txt"
                path.write_text(write_log(seconds, lost[1], START + timedelta(minutes=5 * number)))
                sides[arm].append(read_log(path, arm))
            both, rules = (*sides["a"], *sides["b"]), RULES.replace(arms=("a", "b"))
            case = CaseRuns(comparison="places", case="01", target="cpu", runs=tuple(both), rules=rules)
            record = judge(examine(case))
            yield next(row.verdict for row in record.rows if row.metric == "step_time_s")


def write_log(seconds: Values, gaps: Values, start: datetime) -> str:
    """Return a log as MaxText prints it; its first step waits for the compiler."""
    lines = [f"XPK Start: {start:%a %b %d %H:%M:%S} UTC 2026"]
    now = start + timedelta(seconds=10)
    lines.append(f"I{now:%m%d %H:%M:%S.%f} 139 max_utils.py:10] System Information: Jax Version: 0.12.0")
    lines.append(f"I{now:%m%d %H:%M:%S.%f} 139 max_utils.py:11] Devices: [TpuDevice(id=0)] TPU v6 lite")
    for step, took in enumerate([20.0, *seconds]):
        now += timedelta(seconds=took + (gaps[step - 1] if step else 0.0))
        lines.append(
            f"I{now:%m%d %H:%M:%S.%f} 139 metric_logger.py:196] completed step: {step}, seconds: {took:.3f}, "
            f"TFLOP/s/device: {10 / took:.3f}, Tokens/s/device: {TOKENS / took:.3f}, total_weights: 65536, "
            f"loss: {9 - step / 100:.3f}"
        )
    return "\n".join([*lines, f"XPK End: {now:%a %b %d %H:%M:%S} UTC 2026", "EXIT_CODE=0", ""])


def read_log(path: Path, arm: str) -> RunRecord:
    """Return the run of a log, with the plan and the device that our own launcher would record."""
    reading = scrape_run(path)
    environment = reading.environment.replace(device_kind="TPU v6 lite")
    reading = reading.replace(environment=environment)
    plan = PLAN.replace(arm=arm)
    return RunRecord(plan=plan, arm=arm, label=arm, commit=None, log=str(path), reading=reading)


if __name__ == "__main__":
    main()
