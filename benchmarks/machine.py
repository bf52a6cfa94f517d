"""Describes a benchmark's machine, its load, and the relevant versions."""

import importlib.metadata
import os
import platform
from pathlib import Path

import psutil

PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "prefect", "polars")


# these decide how fast a processor multiplies matrices: only the first two multiply bfloat16
INSTRUCTION_SETS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")


def describe_processor() -> str:
    """Return the processor's name and which instruction sets for matrices it has, as far as Linux tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    has = [name for name in INSTRUCTION_SETS if name in told.get("flags", "").split()]
    return f"{told.get('model name', platform.machine())} ({', '.join(has) or 'no AVX2'})"


def describe_machine(packages: tuple[str, ...] = PACKAGES) -> str:
    """Return two lines of text: the machine with its load, and the versions of Python and the packages."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    machine = f"{platform.system()} {platform.release()}, {describe_processor()}, {os.cpu_count()} cores"
    return f"{machine}, {memory:.0f} GiB, load {load:.1f} at the start\nPython {platform.python_version()}, {versions}"
