"""Counts the compiles that can run at once on this machine; a lane runs one compile at a time."""

import os

import psutil

COMPILE_BYTES = 3 * 2**30  # memory reserved for one compile: seed-1b took 1.8 GiB on v6e-32, with libtpu 0.0.50


def count_lanes(compiles: int) -> int:
    """Return how many of `compiles` compiles fit this machine's memory and processors at once, at least one."""
    return max(1, min(compiles, os.cpu_count() or 1, int(psutil.virtual_memory().available // COMPILE_BYTES)))
