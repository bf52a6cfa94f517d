"""Turns every file of a checkpoint into a crc32c, records them outside the checkpoint, and finds what changed since.

Orbax's payload carries no checksum of its own (zstd runs without, crc32c covers the index alone), so a flipped byte in
an array is restored without a word; only checksums that were taken right after the commit can tell.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import Any

import google_crc32c
from etils import epath

from tasks.records import Problem
from tasks.store import StoreError, write_atomically
from tasks.store.documents import dump_json
from tasks.verify.layout import (
    CheckpointError,
    DamagedFile,
    FoundStep,
    look_at_bucket,
    open_path,
    read_json,
    step_number,
)

VERSION = 1
_DOCUMENT = "maxview checkpoint manifest"
_BLOCK = 256 << 10  # stays in the processor's cache between reading and summing: 6 GB/s instead of 3 for 4 MiB
_REMOTE_BLOCK = 8 << 20  # every read is a request
_WORKERS = 2  # two cores read faster than most disks deliver, and a trainer runs beside us


def manifest_path(step: epath.Path) -> epath.Path:
    """Where a step's manifest belongs: `RUN/manifests/<step>.json` for `RUN/checkpoints/<step>`, else beside it."""
    if step.parent.name == "checkpoints":
        return step.parent.parent / "manifests" / f"{step.name}.json"
    return step.parent / f"{step.name}.manifest.json"


def find_gone(root: epath.Path) -> list[FoundStep]:
    """The steps of a run, of a checkpoints folder, or the one step, that have a manifest and no folder any more."""
    if not root.exists() and open_path(manifest_path(root)).exists():
        return [FoundStep(step_number(root.name), root)]
    if root.name != "checkpoints" and ((root / "checkpoints").exists() or (root / "manifests").exists()):
        root = root / "checkpoints"
    any_path = manifest_path(root / "*")
    if not any_path.parent.is_dir():
        return []
    end = any_path.name.removeprefix("*")
    try:
        names = [path.name.removesuffix(end) for path in any_path.parent.iterdir() if path.name.endswith(end)]
    except OSError as error:
        reason = error.strerror or error
        raise CheckpointError(f"{any_path.parent}: cannot be read ({reason}); check your rights") from error
    return [FoundStep(step_number(name), root / name) for name in sorted(names) if _is_gone(root / name)]


def _is_gone(step: epath.Path) -> bool:
    try:
        return not step.exists() and read_manifest(manifest_path(step)) is not None
    except DamagedFile:  # some other file
        return False


def checksum_files(
    folder: epath.Path, files: Mapping[str, int], on_bytes: Callable[[int], None] | None = None
) -> tuple[dict[str, tuple[int, str]], list[Problem]]:
    """File → (bytes, crc32c in hex), and a problem for every file that could not be read. A file that vanished
    meanwhile is in neither. Memory: one block per worker."""
    problems: list[Problem] = []
    block_size = _REMOTE_BLOCK if "://" in str(folder) else _BLOCK

    def checksum(name: str) -> tuple[str, tuple[int, str] | None]:
        crc = size = 0
        try:
            with (folder / name).open("rb") as file:
                while block := file.read(block_size):
                    crc = google_crc32c.extend(crc, block)
                    size += len(block)
                    if on_bytes:
                        on_bytes(len(block))
        except FileNotFoundError:
            return name, None
        except OSError as error:
            look_at_bucket(folder)
            message = f"cannot be read: {error.strerror or error}; the disk may be failing"
            problems.append(Problem(check="manifest", path=name, message=message))
            return name, None
        return name, (size, f"{crc:08x}")

    # the largest first, so that the workers end together
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="crc32c") as pool:
        found = pool.map(checksum, sorted(files, key=lambda name: -files[name]))
        return {name: entry for name, entry in found if entry is not None}, problems


def write_manifest[P: PathLike[str]](
    path: P, step: int | None, commit_time: int | None, checksums: Mapping[str, tuple[int, str]]
) -> P:
    """Writes the manifest atomically. `commit_time` (ns) ties it to this save of the step; StoreError if it cannot."""
    document = {
        "document": _DOCUMENT,
        "version": VERSION,
        "step": step,
        "commit_timestamp_nsecs": commit_time,
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "algorithm": "crc32c",
        "files": {name: {"bytes": size, "crc32c": crc} for name, (size, crc) in sorted(checksums.items())},
    }
    if "://" not in fspath(path):
        write_atomically(fspath(path), dump_json(document))
        return path
    try:
        open_path(path).write_text(dump_json(document))  # an object appears whole or not at all
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error}); check your rights there") from error
    return path


def read_manifest(path: PathLike[str]) -> dict[str, Any] | None:
    """The manifest, None if none was recorded; DamagedFile if it is not whole."""
    if not open_path(path).exists():
        return None
    manifest = read_json(open_path(path))
    if manifest.get("document") != _DOCUMENT or manifest.get("version") != VERSION:
        raise DamagedFile(f"is no checkpoint manifest of version {VERSION}")
    try:
        for entry in manifest["files"].values():
            if type(entry["bytes"]) is not int:
                raise TypeError(f"{entry['bytes']!r} bytes")
            int(entry["crc32c"], 16)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(f"is damaged: {type(error).__name__}: {error}") from error
    return manifest


def compare_sizes(manifest: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Problem]:
    """One problem for every file that is missing, new or of another length, `sizes` being file → bytes: a file of
    another length has changed, so it need not be read, however long it is."""
    recorded = manifest["files"]
    lengths = {name: (size, recorded.get(name, {}).get("crc32c", "")) for name, size in sizes.items()}
    return check_manifest(manifest, lengths)


def check_manifest(
    manifest: Mapping[str, Any], checksums: Mapping[str, tuple[int, str]], unreadable: Sequence[Problem] = ()
) -> list[Problem]:
    """One problem for every file that is unreadable, missing, new, or not what it was when it was recorded."""
    recorded = manifest["files"]
    problems = list(unreadable)
    for name in sorted((set(recorded) | set(checksums)) - {problem.path for problem in unreadable}):
        message = _difference(recorded.get(name), checksums.get(name))
        if message:
            problems.append(Problem(check="manifest", path=name, message=message))
    return problems


def _difference(recorded: Mapping[str, Any] | None, found: tuple[int, str] | None) -> str | None:
    if recorded is None:
        return "was not there when the manifest was recorded"
    if found is None:
        return f"is missing: it had {recorded['bytes']:,} bytes when the manifest was recorded"
    if found[0] != recorded["bytes"]:
        return f"has {found[0]:,} bytes, {recorded['bytes']:,} when the manifest was recorded"
    if found[1] != recorded["crc32c"]:
        return f"has changed since the manifest was recorded: crc32c {found[1]} instead of {recorded['crc32c']}"
    return None
