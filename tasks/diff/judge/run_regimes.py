"""Names what kind of scatter equal runs have: one run far from the others, or two states, as of a clock."""

from math import expm1

import numpy as np

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.noise import place_of_run
from tasks.records.run_facts import StepLevels
from tasks.records.text import counted

LEAST_APART = 0.005  # a smaller distance of two runs is not named, as a logarithm
TIMES_APART = 4.0  # least distance of a far run, or of two states, in ranges of the runs that agree
MIN_RUNS = 3  # of an arm with a far run: two others must agree


def name_regime(levels: tuple[list[StepLevels], list[StepLevels]], arms: Arms) -> str:
    """Return in words why the steady steps of equal runs scatter, with a semicolon; empty if no regime is seen."""
    logs = [np.log([run.quick.seconds for run in side]) for side in levels]
    if any(len(side) != len(arm.runs) for side, arm in zip(logs, arms, strict=True)):
        return ""  # a run without a level: numbers of runs would be wrong
    return _name_far_run(logs, arms) or _name_states(logs, arms)


def _name_far_run(logs: list[np.ndarray], arms: Arms) -> str:
    """Return which run lies far from the others of its arm, which agree, as those of the other arm do."""
    for side, arm in enumerate(arms):
        if len(logs[side]) < MIN_RUNS:
            continue
        far = int(np.argmax(np.abs(logs[side] - np.median(logs[side]))))
        others = np.delete(logs[side], far)
        agree = max(float(np.ptp(others)), float(np.ptp(logs[1 - side])))
        apart = float(logs[side][far] - np.median(others))
        if abs(apart) >= max(LEAST_APART, TIMES_APART * agree):
            word = "slower" if apart > 0 else "quicker"
            return (
                f"run {far + 1} of {arm.name} is {100 * abs(expm1(apart)):.2g} % {word} than its other "
                f"{counted(others.size, 'run')}{_place(arm, far)}, which agree to {100 * expm1(agree):.2g} %; "
            )
    return ""


def _place(arm: ArmRuns, number: int) -> str:
    """Return the node of the run if no other run of its arm ran there, in brackets; else empty."""
    places = [place_of_run(run) for run in arm.runs]
    return f" (it alone ran on {places[number]})" if places[number] and places.count(places[number]) == 1 else ""


def _name_states(logs: list[np.ndarray], arms: Arms) -> str:
    """Return that the runs of both arms have two states, and how many runs of each arm have the slower one."""
    every = np.sort(np.concatenate(logs))
    if every.size < 2 * MIN_RUNS:
        return ""
    at = int(np.argmax(np.diff(every))) + 1
    low, high = every[:at], every[at:]
    apart = float(high[0] - low[-1])
    if min(low.size, high.size) < 2 or apart < max(LEAST_APART, TIMES_APART * max(np.ptp(low), np.ptp(high))):
        return ""
    slow = [int((side >= high[0]).sum()) for side in logs]
    if any(number in (0, side.size) for number, side in zip(slow, logs, strict=True)):
        return ""  # one arm has one state only: that may be the difference between the arms
    by = 100 * expm1(float(high.mean() - low.mean()))
    shares = " and ".join(f"{n} of {side.size} of {arm.name}" for n, side, arm in zip(slow, logs, arms, strict=True))
    return f"the runs of both arms have two states, {by:.2g} % apart, as of a clock ({shares} are slow); "
