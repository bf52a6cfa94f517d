"""Reads the recorder's settings from a JSON file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Settings:
    """The settings of the recorder in this process."""

    folder: Path  # existing folder of the settings file, for everything that the recorder writes
    observe: bool = False  # True: record the first call of the step, then end the process; False: share the run's start
    tensors: bool = False  # evaluate the observed step operation by operation
    start: Path | None = None  # folder of another arm, whose arguments replace this arm's
    profile: tuple[int, int] | None = None  # first and last call to profile, counted from 0; None: no profile


def read_settings(file: str) -> Settings:
    """Return the settings in a file."""
    path = Path(file)
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    start = given.pop("start", None)
    return Settings(folder=path.parent, start=Path(start) if start else None, **given)
