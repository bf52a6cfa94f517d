"""Prepares the recorder for a Python process, and reads the recorder's record of the training step.

The recorder is `maxview_probe.observe`. It runs in the trainer's own process.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maxview_probe.inject import INJECTED
from maxview_probe.observe.observation_files import CLAIM
from tasks.records.observation import FILE, LOG, Observation

VARIABLE = "MAXVIEW_OBSERVE"
SETTINGS = "settings.json"


def prepare_recorder(folder: Path, environment: Mapping[str, str], **settings: Any) -> dict[str, str]:
    """Write the recorder's settings into an existing folder; return the environment variables to set in the process.

    Deletes an old claim. environment: the process's other variables. settings: fields of `RecorderSettings`.
    """
    (folder / CLAIM).unlink(missing_ok=True)
    (folder / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")
    behind = environment.get("PYTHONPATH")
    path = os.pathsep.join([str(INJECTED), *([behind] if behind else [])])
    return {VARIABLE: str(folder / SETTINGS), "PYTHONPATH": path}


TAIL = 3  # number of the log's last lines in a note


def read_observation(folder: Path, arm: str = "") -> Observation:
    """Return the observation in a folder; if it cannot be read, `step` is None and a note has the reason.

    arm: the name of the compared version that ran.
    """
    path = folder / FILE
    try:
        return Observation.model_validate_json(path.read_bytes()).replace(arm=arm)
    except FileNotFoundError:
        return Observation(arm=arm, notes=(explain_missing_step(folder),))
    except ValidationError as error:
        return Observation(arm=arm, notes=(f"{path}: is no record of a step: {error.errors()[0]['msg']}",))
    except OSError as error:
        return Observation(arm=arm, notes=(f"{path}: cannot be read: {error}",))


def explain_missing_step(folder: Path) -> str:
    """Return why a process left no observation, from its log."""
    log = folder / LOG
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "[maxview] nothing is observed" in text:
        return next(line for line in text.splitlines() if "[maxview] nothing is observed" in line).strip()
    if "[maxview] observing" not in text:
        return "no step was found: the process imported no JAX, or its Python reads no PYTHONPATH"
    last = " | ".join(line.strip() for line in text.splitlines()[-TAIL:])
    return f"no step was found: the process ended before it; see {log} ({last})"
