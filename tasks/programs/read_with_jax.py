"""Reads files with a module of `model.compile` in a subprocess, because the flow's own process must not import JAX."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configs.environment import pass_on

PATIENCE_S = 600.0  # limit of the subprocess's run time
_ROOT = Path(__file__).parents[2]


def read_with_jax(module: str, paths: Sequence[Path]) -> list[Any]:
    """Return one JSON value per file, as `model.compile.<module>` prints them.

    Raises ValueError if the module fails or takes more than PATIENCE_S seconds.
    """
    argv = [sys.executable, "-W", "ignore", "-m", f"model.compile.{module}", *map(str, paths)]
    environment = pass_on(os.environ) | {"JAX_PLATFORMS": "cpu"}
    try:
        done = subprocess.run(
            argv, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"{paths[0]} was not read within {PATIENCE_S:.0f} s") from error
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or [f"{paths[0]} could not be read"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines()]
