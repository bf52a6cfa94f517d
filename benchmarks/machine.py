"""Describes a benchmark's machine, its load, and the relevant versions."""

import importlib.metadata
import os
import platform

import psutil

PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "prefect", "polars")


def describe_machine(packages: tuple[str, ...] = PACKAGES) -> str:
    """Return two lines of text: the machine with its load, and the versions of Python and the packages."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"
    return f"{machine}, load {load:.1f} at the start\nPython {platform.python_version()}, {versions}"
