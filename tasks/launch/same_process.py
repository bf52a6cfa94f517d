"""Tells a process from another one that was given its number later, also where the clock was set meanwhile."""

import sys
from pathlib import Path

import psutil

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TOLERANCE_S = 2.0


def start_of(pid: int) -> tuple[str, float]:
    """When a live process started: the machine's boot, and the seconds from there. Raises psutil.NoSuchProcess.

    Linux knows the time of day of a start only as that of the boot, which moves whenever the clock is set.
    """
    started = psutil.Process(pid).create_time()
    if sys.platform != "linux":
        return "", started
    return BOOT_ID.read_text().strip(), started - psutil.boot_time()


def is_same(pid: int, boot: str, started: float) -> bool:
    """Whether the live process of this number is the one that started then. Raises psutil.NoSuchProcess."""
    boot_now, started_now = start_of(pid)
    return boot_now == boot and abs(started_now - started) < TOLERANCE_S
