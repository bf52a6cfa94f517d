"""Reads the settings of an observation from a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Settings:
    """The settings of this process. `folder` exists."""

    folder: Path
    observe: bool = False  # record the first call of the step, and end the process; else share the start of the run
    tensors: bool = False  # evaluate the observed step operation by operation
    start: Path | None = None  # the arguments of another arm, which replace these by meaning
    profile: tuple[int, int] | None = None  # the calls that are profiled, the last included


def read_settings(file: str) -> Settings:
    """Return the settings in a JSON file."""
    path = Path(file)
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    start = given.pop("start", None)
    return Settings(folder=path.parent, start=Path(start) if start else None, **given)
