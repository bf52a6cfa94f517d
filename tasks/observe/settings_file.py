"""Writes what a process is to record, and the variables that make its Python record it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

INJECTED = Path(__file__).parent / "inject"
VARIABLE = "MAXVIEW_OBSERVE"
SETTINGS = "settings.json"
CLAIM = "claim"  # what the process that records leaves, so that no other one of the same trainer does


def prepare(folder: Path, environment: Mapping[str, str], **settings: Any) -> dict[str, str]:
    """The variables to set in an arm's process; its settings are written into `folder`, which exists."""
    (folder / CLAIM).unlink(missing_ok=True)
    (folder / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")
    behind = environment.get("PYTHONPATH")
    path = os.pathsep.join([str(INJECTED), *([behind] if behind else [])])
    return {VARIABLE: str(folder / SETTINGS), "PYTHONPATH": path}
