"""Estimates the noise between arms that ran on different slices, hosts or days. More runs do not reduce it."""

from collections import Counter
from itertools import pairwise
from math import sqrt

from configs.noise import DeviceNoise
from tasks.diff.metric_row import Arms
from tasks.records import RunRecord, seconds_between

NEIGHBOURS_S = 600.0  # longest pause between neighbouring runs; after longer ones, the machine may have other load
OTHER_TIMES, OTHER_PLACES = "the arms ran at other times", "the arms ran in other places"
NO_PLACE = "the logs do not say where they ran: taken as two places"

type Group = tuple[str, str]  # (slice or host, session: neighbouring runs of one arm)


def lie_apart(arms: Arms, noise: DeviceNoise) -> tuple[float, str]:
    """Return the standard deviation due to the arms' machines and days, as a logarithm, and its reason; 0 if none.

    Runs on the same machine in the same session form a group. All runs of a group have the same random offset. If both
    arms have runs in the same groups, these offsets cancel.
    """
    near = are_neighbours(arms)
    groups = [_groups(arm.runs, arm.name, near=near) for arm in arms]
    shares = [Counter(found) for found in groups]
    # `stated` below is for arms with one group each, for which `apart` is 2
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
    """Return the machine or slice of a run; empty if unknown.

    All runs that maxview launched on this machine have the same place; on a cluster, it is the run's nodes.
    """
    if run.reading.environment.place:
        return run.reading.environment.place
    return f"this machine, {run.plan.target}" if run.plan is not None and run.plan.backend == "local" else ""


def _groups(runs: tuple[RunRecord, ...], arm: str, *, near: bool) -> list[Group]:
    """Return the group of each run. Runs on an unknown machine share a group only with runs of their own arm."""
    if near:
        return [(place_of_run(run) or f"of {arm}", "") for run in runs]
    found, session = [], 0
    ordered = sorted(runs, key=_started)
    for before, run in pairwise([ordered[0], *ordered]):
        session += _waited_s(before, run) > NEIGHBOURS_S if before is not run else 0
        found.append((place_of_run(run), f"{arm} {session}"))
    return found


def are_neighbours(arms: Arms) -> bool:
    """Return whether the n-th runs of both arms ran shortly after one another; True for logs without times.

    False e.g. for the reused runs of an earlier baseline, or logs from different days.
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
    """Return the seconds from the end of a run to the start of a later one; 0 if the logs have no times."""
    waited = seconds_between(before.reading.ended or before.reading.started, after.reading.started)
    return max(0.0, waited or 0.0)
