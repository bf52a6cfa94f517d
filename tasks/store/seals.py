"""Seals finished runs of local stores: stores digests of a run's files outside the store, and detects later changes."""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tasks.store.atomic import StoreError, write_atomically

_FOLDER = "seals"


def state_folder() -> Path:
    """Return the folder of maxview's state for this user: $MAXVIEW_STATE, else ~/.local/state/maxview."""
    return Path(os.environ.get("MAXVIEW_STATE") or Path.home() / ".local" / "state" / "maxview")


def write_seal(run: Path, files: Iterable[Path]) -> None:
    """Store the digests of `files`, which are in the run's folder `run` or missing; ignores a failure of the write."""
    digests = {path.name: _digest(path) for path in files}
    with suppress(StoreError):
        write_atomically(_seal_of(run), json.dumps({"run": str(run), "files": digests}, indent=1) + "\n")


def find_changed(run: Path) -> list[str]:
    """Return the names of sealed files that were changed, removed or created later; none without a readable seal.

    Also none if all sealed files are missing: the run was deleted as a whole, e.g. with its store.
    """
    try:
        sealed = json.loads(_seal_of(run).read_text())["files"]
        if not any((run / name).exists() for name in sealed):
            return []
        return [name for name, digest in sealed.items() if _digest(run / name) != digest]
    except (OSError, ValueError, KeyError, AttributeError):
        return []


def remove_seal(run: Path) -> None:
    """Remove the seal of a run that is about to be repeated, because its files will change."""
    with suppress(OSError):
        _seal_of(run).unlink()


def _seal_of(run: Path) -> Path:
    return state_folder() / _FOLDER / f"{hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:32]}.json"


def _digest(path: Path) -> str | None:
    if not path.is_file():  # reading a pipe may never end
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
