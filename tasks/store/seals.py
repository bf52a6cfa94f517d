"""Seals the finished runs of this machine: digests of their files, kept where no run may write, checked at reuse."""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tasks.store.atomic import StoreError, write_atomically

_FOLDER = "seals"


def state_folder() -> Path:
    """What maxview keeps for this user between commands: $MAXVIEW_STATE, or a folder of the home."""
    return Path(os.environ.get("MAXVIEW_STATE") or Path.home() / ".local" / "state" / "maxview")


def write_seal(run: Path, files: Iterable[Path]) -> None:
    """Remember what these files of a run hold now. A state folder that cannot be written seals nothing."""
    digests = {path.name: _digest(path) for path in files}
    with suppress(StoreError):
        write_atomically(_seal_of(run), json.dumps({"run": str(run), "files": digests}, indent=1) + "\n")


def find_changed(run: Path) -> list[str]:
    """The sealed files of a run that hold something else by now, or are gone; none for a run without a seal."""
    try:
        sealed = json.loads(_seal_of(run).read_text())["files"]
        return [name for name, digest in sealed.items() if _digest(run / name) != digest]
    except (OSError, ValueError, KeyError, AttributeError):
        return []


def _seal_of(run: Path) -> Path:
    return state_folder() / _FOLDER / f"{hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:32]}.json"


def _digest(path: Path) -> str | None:
    if not path.is_file():  # also a pipe, whose reading may never end
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
