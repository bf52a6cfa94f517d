"""Turns the mean steps of two arms into why they are not the same, though most of their steps are."""

from tasks.diff.metric_row import Arms
from tasks.metrics.step_time_levels import CLOSE
from tasks.metrics.time_account import COMPUTE, is_steady
from tasks.records import TimeAccount

MOST = 1.05  # times: as far may the mean steps of all runs of one arm lie beyond those of all runs of the other
START_AND_END = ("start", "end", "outside", "wait at the end", "evaluation at the end")


def differ_in_mean(arms: Arms, means: tuple[list[float], list[float]]) -> str:
    """Why the arms cannot be called the same; empty unless every run of one is slower than all of the other.

    means: seconds from step to step of each run's steps but the first, stalls and what lies between them included.
    """
    lows, highs = [min(side) for side in means], [max(side) for side in means]
    slower = 1 if lows[1] > MOST * highs[0] else 0 if lows[0] > MOST * highs[1] else None
    if slower is None:
        return ""
    left, right = (sum(side) / len(side) for side in means)
    part = _grown_part(arms, slower)
    return f"the mean step is {100 * (right / left - 1):+.3g} % ({left:.4g} s became {right:.4g} s){part}"


def _grown_part(arms: Arms, slower: int) -> str:
    """The part of the time account that grew most per step in the slower arm."""
    sides = [[one.account for one in arm.facts if one.account and is_steady(one.account)] for arm in arms]
    if not all(sides):
        return ""
    parts = [_per_step(side) for side in sides]
    grown = {name: parts[slower][name] - parts[1 - slower].get(name, 0.0) for name in parts[slower]}
    name = max(grown, key=lambda part: grown[part], default="")
    if not name or grown[name] <= 0:
        return ""
    words = f"compute: steps of more than {CLOSE:g} × the usual one" if name == COMPUTE else name
    return f", {grown[name]:.3g} s a step of it in {words}"


def _per_step(accounts: list[TimeAccount]) -> dict[str, float]:
    """Mean seconds per step of each part between the first step and the last."""
    found: dict[str, float] = {}
    for account in accounts:
        steps = max(part.steps for part in account.parts if part.part == COMPUTE)
        for part in account.parts:
            if part.part not in (*START_AND_END, "compile"):
                found[part.part] = found.get(part.part, 0.0) + part.seconds / steps / len(accounts)
    return found
