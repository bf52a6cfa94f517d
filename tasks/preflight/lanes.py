"""Says how many compiles this machine does at once, and in which order."""

import os
from collections.abc import Iterable
from itertools import batched, groupby

import psutil

from tasks.records import RunPlan

COMPILE_BYTES = 3 * 2**30  # of memory that one compile may take: seed-1b took 1.8 on v6e-32, with libtpu 0.0.50


def count_lanes(compiles: int) -> int:
    """As many as it has memory and processors for; at least one."""
    return max(1, min(compiles, os.cpu_count() or 1, int(psutil.virtual_memory().available // COMPILE_BYTES)))


def order_compiles(plans: Iterable[RunPlan], lanes: int) -> list[list[RunPlan]]:
    """The plans of as many cases as there are lanes, one group after another; in a group the first arm of each case
    comes first, for where both arms are one program, the second waits for the first.
    """
    cases = [list(case) for _, case in groupby(plans, key=lambda plan: plan.case)]
    return [[plan for arm in zip(*some, strict=True) for plan in arm] for some in batched(cases, lanes)]
