"""Reads the settings of an observation from a file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Settings:
    """The settings of an observation in this process. `folder` exists."""

    folder: Path
    step: str | None = None  # the jitted function's name; None: the first that looks like a training step
    call: int = 0  # of the step that is recorded, counted from 0
    program: bool = False  # write the texts of its program
    tensors: bool = False  # evaluate the step operation by operation
    keep_arguments: bool = False  # write the arguments
    start: Path | None = None  # the arguments of another arm, which replace these by meaning
    profile: tuple[int, int] | None = None  # the calls that are profiled, the last included
    end: bool = False  # end the process after the observation


def read_settings(file: str) -> Settings:
    """The settings in a JSON file."""
    path = Path(file)
    given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    start, profile = given.pop("start", None), given.pop("profile", None)
    return Settings(
        folder=path.parent,
        start=Path(start) if start else None,
        profile=(profile[0], profile[1]) if profile else None,
        **given,
    )
