"""Describes a candidate whose steps have two levels, such as two of three steps 25 % slower; its cost is the mean."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.metrics.merged_steps import timed_steps

LEAST_SHARE = 0.2  # of all steps that a level has
LEAST_GAP = 0.05  # logarithm between the levels; nearer ones are one level
WIDER = 3.0  # × the larger spread inside a level, for the gap between two
UNCHANGED = 0.02  # logarithm from the baseline's level
ORDINALS = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}

type Logs = NDArray[np.float64]


def describe_modes(arms: Arms) -> str:
    """Return the change of the mean step, and both levels of the candidate's steps; empty unless there are two."""
    (baseline, _), (candidate, order) = (_logs_of(arm) for arm in arms)
    border = find_border(candidate)
    if border is None or not baseline.size or find_border(baseline) is not None:
        return ""
    mean = 100 * float(np.exp(candidate).mean() / np.exp(baseline).mean() - 1)
    usual = float(np.median(baseline))
    parts = [(candidate[high == side], high == side) for high in [candidate > border] for side in (True, False)]
    told = [f"{name_share(chosen, order)} {_size(float(np.median(values)) - usual)}" for values, chosen in parts]
    return f"the mean step {mean:+.1f} %: {', '.join(told)}"


def find_border(logs: Logs) -> float | None:
    """Return the border between two levels of step times (logarithms); None if there is one level."""
    values = np.sort(logs)
    least = max(2, int(np.ceil(LEAST_SHARE * len(values))))
    if len(values) < 2 * least:
        return None
    gaps = np.diff(values)[least - 1 : len(values) - least]
    at = int(np.argmax(gaps)) + least
    spread = max(float(values[:at].std()), float(values[at:].std()))
    return float(values[at - 1] + values[at]) / 2 if gaps.max() > max(LEAST_GAP, WIDER * spread) else None


def _logs_of(arm: ArmRuns) -> tuple[Logs, NDArray[np.int64]]:
    """Return the logarithms of all runs' steps but the first, and the number of each step in its run."""
    runs = [timed_steps(run)[0]["seconds"].drop_nulls().to_numpy()[1:] for run in arm.runs]
    runs = [seconds[seconds > 0] for seconds in runs]
    numbers = [np.arange(len(seconds)) for seconds in runs]
    return np.log(np.concatenate(runs)), np.concatenate(numbers)


def name_share(chosen: NDArray[np.bool_], order: NDArray[np.int64]) -> str:
    """Return which steps these are: `every third step`, else their share: `2 of 3 steps`."""
    at = order[chosen]
    steps = {int(b - a) for a, b in pairwise(at) if b > a}
    if len(steps) == 1 and (every := steps.pop()) in ORDINALS:
        return f"every {ORDINALS[every]} step"
    share = Fraction(float(chosen.mean())).limit_denominator(5)
    return f"{share.numerator} of {share.denominator} steps"


def _size(gap: float) -> str:
    return "unchanged" if abs(gap) <= UNCHANGED else f"{100 * float(np.expm1(gap)):+.0f} %"
