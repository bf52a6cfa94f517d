"""Decides how many compiles this machine runs at once, and their order."""

import os
from collections.abc import Iterable
from itertools import batched, groupby

import psutil

from tasks.records import RunPlan

COMPILE_BYTES = 3 * 2**30  # memory of one compile: seed-1b took 1.8 GiB on v6e-32, with libtpu 0.0.50


def count_lanes(compiles: int) -> int:
    """Return the number of compiles that fit this machine's memory and processors, at least one."""
    return max(1, min(compiles, os.cpu_count() or 1, int(psutil.virtual_memory().available // COMPILE_BYTES)))


def order_compiles(plans: Iterable[RunPlan], lanes: int) -> list[list[RunPlan]]:
    """Group the plans of as many cases as there are lanes; within a group all first arms come first.

    If both arms are one program, the second waits for the first arm's compile.
    """
    cases = [list(case) for _, case in groupby(plans, key=lambda plan: plan.case)]
    return [[plan for arm in zip(*some, strict=True) for plan in arm] for some in batched(cases, lanes)]
