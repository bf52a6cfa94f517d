"""Turns the mean steps of two arms into why they are not the same, though most of their steps are."""

from tasks.diff.metric_row import Arms
from tasks.diff.step_time_levels import CLOSE
from tasks.diff.time_account import COMPUTE, account_run
from tasks.ingest.merged_steps import step_table
from tasks.records import RunRecord, TimeAccount, seconds_between

MOST = 1.05  # times: as far may the mean steps of all runs of one arm lie beyond those of all runs of the other
WHOLE_S = 1.0  # what a clock that prints whole seconds leaves open
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


def seconds_between_steps(run: RunRecord) -> float:
    """The seconds per step that pass between the printed seconds: the dates of the lines, less the steps between.

    0 where the log does not date its lines. A line that is printed late comes after the step that follows it.
    """
    rows, table = run.reading.steps, step_table(run)
    if rows.height < 3 or rows["time"].null_count() or table.height != rows.height:
        return 0.0
    whole = seconds_between(rows["time"][0], rows["time"][-1])
    if whole is None or whole <= 0:
        return 0.0
    steps = float(table["seconds"][2 if run.reading.deferred else 1 :].fill_null(0.0).sum())
    coarse = WHOLE_S if not any("." in time for time in rows["time"]) else 0.0
    return max(0.0, whole - steps - coarse) / (rows.height - 1)


def _grown_part(arms: Arms, slower: int) -> str:
    """The part of the time account that grew most per step in the slower arm."""
    sides = [[account for run in arm.runs if (account := account_run(run))] for arm in arms]
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
