"""Reads the memory that this process uses, on the host and on its devices, at the end of a step."""

import os
import resource
import sys
from pathlib import Path

import jax

RESIDENT = Path("/proc/self/statm")  # Linux only
KIB = 1 if sys.platform == "darwin" else 1024  # bytes per unit of `ru_maxrss`


def read_memory() -> dict[str, int]:
    """Return the bytes of memory by name: resident on the host and its peak, used on the fullest device and its peak.

    Names without a value are left out: resident memory on systems other than Linux, device memory where the backend
    reports none, as on CPUs.
    """
    memory = {"host_memory_peak_b": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB}
    if RESIDENT.exists():
        memory["host_memory_b"] = int(RESIDENT.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    devices = [stats for device in jax.local_devices() if (stats := device.memory_stats())]
    for name, key in (("device_memory_b", "bytes_in_use"), ("device_memory_peak_b", "peak_bytes_in_use")):
        if used := [stats[key] for stats in devices if key in stats]:
            memory[name] = max(used)
    return memory
