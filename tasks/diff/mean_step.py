"""Finds arms whose mean step times differ although their steady and typical steps take equally long."""

from tasks.diff.metric_row import Arms
from tasks.metrics.step_time_levels import CLOSE
from tasks.metrics.time_account import COMPUTE, is_steady
from tasks.records import TimeAccount

MOST = 1.05  # largest accepted ratio of the slower arm's shortest mean step to the other arm's longest
MOST_OF_ALL = 1.2  # largest accepted ratio of the arms' averages: larger than MOST, because single runs may stall
START_AND_END = ("start", "end", "outside", "wait at the end", "evaluation at the end")


def differ_in_mean(arms: Arms, means: tuple[list[float], list[float]]) -> str:
    """Return why the arms are not the same, in words; empty if their mean steps agree (see MOST, MOST_OF_ALL).

    means: of each arm's runs, the mean seconds per step after the first, with stalls and time between steps.
    """
    left, right = (sum(side) / len(side) for side in means)
    slower = int(right > left)
    longer = min(means[slower]) > MOST * max(means[1 - slower])
    if not longer and max(left, right) <= MOST_OF_ALL * min(left, right):
        return ""
    part = _grown_part(arms, slower)
    return f"the mean step is {100 * (right / left - 1):+.3g} % ({left:.4g} s became {right:.4g} s){part}"


def _grown_part(arms: Arms, slower: int) -> str:
    """Return the part of the time account that grew most per step in the slower arm, in words; empty if unknown."""
    sides = [[one.account for one in arm.facts if one.account and is_steady(one.account)] for arm in arms]
    if not all(sides):
        return ""
    parts = [_per_step(side) for side in sides]
    grown = {name: parts[slower][name] - parts[1 - slower].get(name, 0.0) for name in parts[slower]}
    name = max(grown, key=lambda part: grown[part], default="")
    if not name or grown[name] <= 0:
        return ""
    words = f"compute in steps of more than {CLOSE:g} × the usual one" if name == COMPUTE else f'"{name}"'
    return f"; the part that grew most is {words}: {grown[name]:.3g} s per step"


def _per_step(accounts: list[TimeAccount]) -> dict[str, float]:
    """Return the mean seconds per step of each part between the first step and the last."""
    found: dict[str, float] = {}
    for account in accounts:
        steps = max(part.steps for part in account.parts if part.part == COMPUTE)
        for part in account.parts:
            if part.part not in (*START_AND_END, "compile"):
                found[part.part] = found.get(part.part, 0.0) + part.seconds / steps / len(accounts)
    return found
