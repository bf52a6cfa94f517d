"""Runs a program of this folder in another library's Python."""

import os
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent


def run_program(python: str, program: str, *folders: Path) -> None:
    """Run a program of another library in its own Python. Fails with the end of its output."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "DECOUPLE_GCLOUD": "TRUE", "HF_HUB_OFFLINE": "1"}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # MaxText compiles in a quarter of this time
    argv = [python, str(FOLDER / "programs" / program), *map(str, folders)]
    ended = subprocess.run(argv, env=environment, cwd=folders[0], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
