"""Says what lies between two arms beside their code: other slices, hosts or days, of which more runs tell nothing."""

from collections import Counter
from itertools import pairwise
from math import sqrt

from configs.noise import DeviceNoise
from tasks.diff.metric_row import Arms
from tasks.records import RunRecord, seconds_between

NEIGHBOURS_S = 600.0  # from the end of one run to the start of the next; after that the machine may do something else
OTHER_TIMES, OTHER_PLACES = "the arms ran at other times", "the arms ran in other places"
NO_PLACE = "the logs do not say where they ran: taken as two places"

type Group = tuple[str, str]  # slice or host, and session: what their runs share


def lie_apart(arms: Arms, noise: DeviceNoise) -> tuple[float, str]:
    """The standard deviation of what lies between the arms, as a logarithm, and why; 0 if nothing does.

    Each group of runs that share place and session has an offset of its own: it counts once for the group, not once
    for each run. Arms that are spread over the same groups share their offsets.
    """
    near = are_neighbours(arms)
    groups = [_groups(arm.runs, arm.name, near=near) for arm in arms]
    shares = [Counter(found) for found in groups]
    # two arms in one group each, that is shares of 1 and 0, differ by the stated deviation
    apart = sum(
        (shares[0][group] / len(groups[0]) - shares[1][group] / len(groups[1])) ** 2
        for group in {*groups[0], *groups[1]}
    )
    if not apart:
        return 0.0, ""
    stated = noise.places_apart if near and noise.places_apart else noise.days_apart
    size = stated * sqrt(apart / 2)
    if not near:
        return size, OTHER_TIMES
    return size, OTHER_PLACES if all(place_of_run(run) for arm in arms for run in arm.runs) else NO_PLACE


def place_of_run(run: RunRecord) -> str:
    """The machine or slice that a run had; empty where nothing says it.

    Our own runs on this machine have one place. On a cluster, the nodes of the run are its place.
    """
    if run.reading.environment.place:
        return run.reading.environment.place
    return f"this machine, {run.plan.target}" if run.plan is not None and run.plan.backend == "local" else ""


def _groups(runs: tuple[RunRecord, ...], arm: str, *, near: bool) -> list[Group]:
    """The group of each run. A run that does not say where it ran shares its place with its own arm alone."""
    if near:
        return [(place_of_run(run) or f"of {arm}", "") for run in runs]
    found, session = [], 0
    ordered = sorted(runs, key=_started)
    for before, run in pairwise([ordered[0], *ordered]):
        session += _waited_s(before, run) > NEIGHBOURS_S if before is not run else 0
        found.append((place_of_run(run), f"{arm} {session}"))
    return found


def are_neighbours(arms: Arms) -> bool:
    """Whether the runs of the arms followed one another: the n-th of each began soon after one another had ended.

    A reused baseline did not, nor did logs of two days. Logs that say no time are taken as neighbours.
    """
    sides = [sorted(arm.runs, key=_started) for arm in arms]
    if len(sides[0]) == len(sides[1]):
        pairs = [sorted(pair, key=_started) for pair in zip(*sides, strict=True)]
    else:
        pairs = [list(pair) for pair in pairwise(sorted([*sides[0], *sides[1]], key=_started))]
    return all(_waited_s(before, after) <= NEIGHBOURS_S for before, after in pairs)


def _started(run: RunRecord) -> str:
    return run.reading.started or ""


def _waited_s(before: RunRecord, after: RunRecord) -> float:
    """The seconds from the end of a run to the start of a later one; 0 where the logs say no time."""
    waited = seconds_between(before.reading.ended or before.reading.started, after.reading.started)
    return max(0.0, waited or 0.0)
