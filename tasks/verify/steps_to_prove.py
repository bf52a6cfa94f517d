"""Finds the checkpoint steps saved in given folders since a given time, verifies them, and stores `ok` proofs."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from etils import epath

from tasks.records.checkpoint_proof import CheckpointProof
from tasks.verify.commit_marks import show_time
from tasks.verify.layout import (
    STEP_METADATA,
    CheckpointError,
    DamagedFile,
    FoundStep,
    find_steps,
    open_path,
    read_metadata,
    read_small,
)
from tasks.verify.manifest import manifest_path, write_text
from tasks.verify.verification import verify_checkpoint


def find_steps_since(places: Sequence[str], *, since: datetime | None = None) -> list[str]:
    """Return the sorted paths of the steps in `places` that were saved since a time; all steps if `since` is None.

    Includes steps without a date. A place is the path of a step, of a run, or of a folder of runs. Raises
    CheckpointError for a place without checkpoints, an unreadable place and an unreachable bucket.
    """
    paths = {str(step.path) for place in places for step in _steps_in(place)}
    return [path for path in sorted(paths) if _is_since(epath.Path(path), since)]


def find_unverified(folder: Path | None, proofs: Sequence[CheckpointProof]) -> list[Path]:
    """Return the paths of the steps without a proof in a run's checkpoints folder; empty without a folder.

    For example, unfinished saves, and steps whose commit is missing from a log that was cut off."""
    if folder is None or not folder.is_dir():
        return []
    seen = {Path(proof.path).resolve() for proof in proofs}
    steps = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name[:1].isdigit()]
    return [path for path in steps if path.resolve() not in seen]


def _steps_in(place: str) -> list[FoundStep]:
    try:
        return find_steps(place)
    except CheckpointError:
        root = open_path(place)
        steps: list[FoundStep] = []
        for folder in (root, root / "runs"):
            for run in folder.iterdir() if folder.is_dir() else ():
                if (run / "checkpoints").is_dir():
                    with suppress(CheckpointError):  # the run has not saved yet
                        steps += find_steps(run)
        if not steps:
            raise
        return steps


def _is_since(step: epath.Path, since: datetime | None) -> bool:
    """Return whether a step was saved since a time; True for a step without a date, which may be damaged."""
    if since is None:
        return True
    metadata = _read_metadata(step)
    moment = show_time(metadata.get("commit_timestamp_nsecs")) or show_time(metadata.get("init_timestamp_nsecs"))
    return moment is None or datetime.fromisoformat(moment) >= since


def _read_metadata(step: epath.Path) -> dict[str, Any]:
    try:
        return read_metadata(step / STEP_METADATA)
    except DamagedFile:
        return {}


def proof_path(step: epath.Path) -> epath.Path:
    """Return the path of a step's proof, in the folder of its manifest."""
    manifest = manifest_path(step)
    return manifest.parent / f"{manifest.name.removesuffix('.json')}.proof.json"


def prove(path: str, *, deep: bool, again_after: timedelta) -> CheckpointProof:
    """Return the proof of a step, with its manifest recorded or compared, and store an `ok` proof.

    A stored proof of the same save is reused if it is younger than `again_after` and, with `deep`, has checked all
    values. Raises CheckpointError for a missing step, and StoreError if the proof or the manifest cannot be written.
    """
    step = open_path(path)
    before = _read_proof(step)
    if before is not None and _still_holds(before, deep=deep, again_after=again_after):
        return before
    proof = verify_checkpoint(step, mode="record", deep=deep)
    if proof.ok:
        write_text(proof_path(step), proof.model_dump_json(indent=1))
    return proof


def _still_holds(proof: CheckpointProof, *, deep: bool, again_after: timedelta) -> bool:
    committed = show_time(_read_metadata(open_path(proof.path)).get("commit_timestamp_nsecs"))
    same = committed is not None and proof.committed_at == committed
    young = datetime.now(UTC) - datetime.fromisoformat(proof.verified_at) < again_after
    return same and young and (not deep or "values" in proof.checks)


def _read_proof(step: epath.Path) -> CheckpointProof | None:
    try:
        proof = CheckpointProof.model_validate_json(read_small(proof_path(step)))
    except (DamagedFile, ValueError):  # no valid proof: the step is verified again
        return None
    return proof if proof.path == str(step) else None
