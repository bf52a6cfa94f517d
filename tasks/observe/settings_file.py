"""Writes the recorder's settings, and returns the environment variables that start it in a Python process."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.observe.inject.maxview_observe.files import CLAIM

INJECTED = Path(__file__).parent / "inject"
VARIABLE = "MAXVIEW_OBSERVE"
SETTINGS = "settings.json"


def prepare(folder: Path, environment: Mapping[str, str], **settings: Any) -> dict[str, str]:
    """Write the recorder's settings into an existing folder; return the variables to set in the arm's process."""
    (folder / CLAIM).unlink(missing_ok=True)
    (folder / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")
    behind = environment.get("PYTHONPATH")
    path = os.pathsep.join([str(INJECTED), *([behind] if behind else [])])
    return {VARIABLE: str(folder / SETTINGS), "PYTHONPATH": path}
