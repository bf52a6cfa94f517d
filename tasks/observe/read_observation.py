"""Reads the files of an observed process into an `Observation`."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tasks.records.observation import FILE, LOG, Observation

TAIL = 3  # lines of the log in a note


def read_observation(folder: Path, arm: str = "") -> Observation:
    """The observation in a folder. What cannot be read is a note, and `step` is None."""
    path = folder / FILE
    try:
        return Observation.model_validate({**_read(path), "arm": arm})
    except FileNotFoundError:
        return Observation(arm=arm, notes=(explain_nothing(folder),))
    except (OSError, ValueError, ValidationError) as error:
        return Observation(arm=arm, notes=(f"{path}: cannot be read: {error}",))


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def explain_nothing(folder: Path) -> str:
    """Why a process left no observation, as its log says."""
    log = folder / LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "[maxview] nothing is observed" in text:
        return next(line for line in text.splitlines() if "[maxview] nothing is observed" in line).strip()
    if "[maxview] observing" not in text:
        return "no step was found: the process imported no JAX, or its Python reads no PYTHONPATH"
    last = " | ".join(line.strip() for line in text.splitlines()[-TAIL:])
    return f"no step was found: the process ended before it; see {log} ({last})"
