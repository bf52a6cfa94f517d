"""A trainer of the tests: plays stored logs, so that a comparison with its processes takes seconds."""

import sys
from pathlib import Path

PLAYER = Path(__file__).parent / "player.py"


def write_python(path: Path, logs: Path, speed: float = float("inf")) -> Path:
    """Write an executable that stands in for Python: instead of training, it plays the logs in a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = f'"{sys.executable}" "{PLAYER}" "{logs}" "{sys.executable}"'
    path.write_text(f'#!/bin/sh\nREPLAY_SPEED={speed} exec {words} "$@"\n')
    path.chmod(0o755)
    return path
