"""Times both arms' host loops: each trainer runs in turn, unchanged but for its step's program, which returns zeros."""

from pathlib import Path
from typing import Any

import numpy as np

from maxview_probe.observe.observation_files import LOOP
from maxview_probe.turns.paired_times import trimmed_interval
from tasks.experiments.emptied_trainer import run_emptied
from tasks.experiments.recordings import SIDES, Both
from tasks.experiments.run_inside import Say
from tasks.records.host_times import HostTimes, Span
from tasks.records.plan import RunPlan
from tasks.store.atomic import write_atomically
from tasks.store.documents import dump_json, load_json, read_document

RESULT = "host-loops.json"
# which arm runs when: neither has the better place if the machine becomes quicker or slower
ORDER = (0, 1, 1, 0)
CALLS = 100  # stamped calls of a step; fewer if a trainer that takes no `steps=` has fewer steps
WARM = 10  # periods after the first call that are left out: caches fill, the first save is written
CUT = 0.05  # share of the gaps at each end that do not count: bursts of other load
LEAST = 5  # periods of a process


def time_host_loops(plans: Both[RunPlan], folder: Path, chance: float, say: Say = lambda text: None) -> HostTimes:
    """Return the difference of the host loops' time per step; with a `problem` if they cannot be timed.

    plans: of both arms, on this machine. chance: that an interval misses the true difference.
    """
    stored, settings = folder / RESULT, {"plans": [plan.identity for plan in plans], "chance": chance}
    if (known := read_document(stored, load_json)) and known["settings"] == settings:
        return HostTimes.model_validate(known["times"])
    times = _time(plans, folder, chance, say)
    if not times.problem:
        write_atomically(stored, dump_json({"settings": settings, "times": times.model_dump()}))
    return times


def _time(plans: Both[RunPlan], folder: Path, chance: float, say: Say) -> HostTimes:
    found: Both[list[Any]] = ([], [])
    for turn, side in enumerate(ORDER, 1):
        say(f"timing the host loop of {plans[side].arm} ({turn} of {len(ORDER)})")
        place = folder / "host" / f"{turn}-{SIDES[side]}"
        clocked = run_emptied(plans[side], place, LOOP, CALLS, loop_calls=CALLS)
        if isinstance(clocked, str):
            return HostTimes(problem=clocked)
        found[side].append(np.diff(clocked["stamps"], axis=0)[WARM:])
    steps = min(len(one) for side in found for one in side)
    if steps < LEAST:
        return HostTimes(problem=f"only {steps} steps of a host loop could be timed: train more steps")
    left, right = (np.stack([one[:steps] for one in side]) for side in found)  # (pairs, steps, 2)
    walls, cpus = (_span(right[:, :, clock] - left[:, :, clock], chance) for clock in (0, 1))
    means = [side.mean(axis=(0, 1)) for side in (left, right)]
    return HostTimes(
        wall_s=(float(means[0][0]), float(means[1][0])),
        cpu_s=(float(means[0][1]), float(means[1][1])),
        wall=walls,
        cpu=cpus,
        pairs=len(left),
        steps=left.shape[0] * steps,
    )


def _span(gaps: Any, chance: float) -> Span:
    """Return the mean of the gaps between equal steps, with the interval that covers each pair's own.

    gaps: (pairs, steps) in seconds. The n-th steps of both arms are compared, because both save and log there. Two
    processes of one program differ, too: so the interval is not that of all gaps together.
    """
    found = [trimmed_interval(pair, CUT, chance) for pair in gaps]
    effect = float(np.mean([one.effect for one in found]))
    return Span(effect=effect, low=min(one.low for one in found), high=max(one.high for one in found))
