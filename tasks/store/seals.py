"""Seals finished runs: stores digests of their files where no run can write, and checks them on reuse."""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tasks.store.atomic import StoreError, write_atomically

_FOLDER = "seals"


def state_folder() -> Path:
    """Return the folder of maxview's state for this user: $MAXVIEW_STATE, or a folder in the home."""
    return Path(os.environ.get("MAXVIEW_STATE") or Path.home() / ".local" / "state" / "maxview")


def write_seal(run: Path, files: Iterable[Path]) -> None:
    """Store the digests of a run's files; does nothing if the state folder is not writable."""
    digests = {path.name: _digest(path) for path in files}
    with suppress(StoreError):
        write_atomically(_seal_of(run), json.dumps({"run": str(run), "files": digests}, indent=1) + "\n")


def find_changed(run: Path) -> list[str]:
    """Return the sealed files of a run that were changed or removed; none for a run without a seal.

    A run without any of its files was deleted as a whole, with its store for example: it is a new run.
    """
    try:
        sealed = json.loads(_seal_of(run).read_text())["files"]
        if not any((run / name).exists() for name in sealed):
            return []
        return [name for name, digest in sealed.items() if _digest(run / name) != digest]
    except (OSError, ValueError, KeyError, AttributeError):
        return []


def remove_seal(run: Path) -> None:
    """Remove the seal of a run that is about to be repeated: its files change from here on."""
    with suppress(OSError):
        _seal_of(run).unlink()


def _seal_of(run: Path) -> Path:
    return state_folder() / _FOLDER / f"{hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:32]}.json"


def _digest(path: Path) -> str | None:
    if not path.is_file():  # reading a pipe may never end
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
