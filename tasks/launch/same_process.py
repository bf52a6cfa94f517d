"""Tells a process from a later one with the same pid, even if the clock was set in between."""

import sys
from pathlib import Path

import psutil

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
TOLERANCE_S = 2.0


def start_of(pid: int) -> tuple[str, float]:
    """Return a live process's start: the machine's boot id and seconds since the boot. Raises psutil.NoSuchProcess.

    A time of day would not do: Linux derives it from the boot's, which moves whenever the clock is set.
    """
    started = psutil.Process(pid).create_time()
    if sys.platform != "linux":
        return "", started
    return BOOT_ID.read_text().strip(), started - psutil.boot_time()


def is_same(pid: int, boot: str, started: float) -> bool:
    """Return whether the live process `pid` started at that time. Raises psutil.NoSuchProcess."""
    boot_now, started_now = start_of(pid)
    return boot_now == boot and abs(started_now - started) < TOLERANCE_S
