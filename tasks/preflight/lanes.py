"""Says how many compiles this machine does at once."""

import os

import psutil

COMPILE_BYTES = 3 * 2**30  # of memory that one compile may take: seed-1b took 1.8 on v6e-32, with libtpu 0.0.50


def count_lanes(compiles: int) -> int:
    """As many as it has memory and processors for; at least one."""
    return max(1, min(compiles, os.cpu_count() or 1, int(psutil.virtual_memory().available // COMPILE_BYTES)))
