"""A JAX backend and configs for trainers that compile in a second."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from configs.load import CONFIG_ROOT, load_train_config
from configs.schema import TrainConfig


def start_backend(devices: int) -> None:
    """Start JAX with virtual CPU devices and a compiler that does not optimise: each program runs a few times.

    XLA reads its flags once, so they are removed again before any test starts another process.
    """
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    jax.config.update("jax_platforms", "cpu")
    if devices > 1:
        jax.config.update("jax_num_cpu_devices", devices)
    jax.jit(lambda x: x + 1)(0)
    if before is None:
        del os.environ["XLA_FLAGS"]
    else:
        os.environ["XLA_FLAGS"] = before


def small_arguments(case: str, sizes: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `model.train` for a case at given sizes."""
    return [str(case_file(case)), *(f"{key}={value}" for key, value in sizes.items())]


def small_config(case: str, sizes: Mapping[str, Any]) -> TrainConfig:
    """Return the config of a case at given sizes."""
    return load_train_config(case_file(case), small_arguments(case, sizes)[1:])


def case_file(case: str) -> Path:
    """Return the path of a case."""
    return CONFIG_ROOT / "cases" / f"{case}.yml"
