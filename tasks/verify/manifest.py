"""Writes and checks manifests. A manifest contains the crc32c of every file of a checkpoint.

Orbax stores no checksum of array data, so a flipped byte in an array is restored silently. Only checksums that were
computed right after the commit detect the flipped byte.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import google_crc32c
from etils import epath

from tasks.records.checkpoint_proof import Problem
from tasks.store.atomic import StoreError, write_atomically
from tasks.store.documents import dump_json
from tasks.verify.layout import (
    CheckpointError,
    DamagedFile,
    FoundStep,
    open_path,
    raise_if_unreachable,
    read_metadata,
    step_number,
)

VERSION = 1
_DOCUMENT = "maxview checkpoint manifest"
_BLOCK = 256 << 10  # bytes read at once; they fit the CPU's cache: 6 GB/s instead of 3 GB/s with 4 MiB
_REMOTE_BLOCK = 8 << 20  # bytes read at once from a bucket; many, because every read is a request
_WORKERS = 2  # enough for most disks; a trainer may need the other cores


def manifest_path(step: epath.Path) -> epath.Path:
    """Return the path of a step's manifest: `RUN/manifests/9.json` for `RUN/checkpoints/9`, else `9.manifest.json` next
    to the step's folder."""
    if step.parent.name == "checkpoints":
        return step.parent.parent / "manifests" / f"{step.name}.json"
    return step.parent / f"{step.name}.manifest.json"


def find_gone(root: epath.Path) -> list[FoundStep]:
    """Return the steps at `root` (a run, a checkpoints folder, or one step) that have a manifest but no folder.

    Raises CheckpointError if the folder of the manifests cannot be listed.
    """
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
    except DamagedFile:  # not a manifest
        return False


def checksum_files(
    folder: epath.Path, files: Mapping[str, int], on_bytes: Callable[[int], None] | None = None
) -> tuple[dict[str, tuple[int, str]], list[Problem]]:
    """Return file → (size in bytes, crc32c in hex), and one problem per unreadable file.

    Files that vanish meanwhile are omitted. on_bytes: called by other threads with the number of bytes of each
    block."""
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
            raise_if_unreachable(folder)
            message = f"cannot be read: {error.strerror or error}; the disk may be failing"
            problems.append(Problem(check="manifest", path=name, message=message))
            return name, None
        return name, (size, f"{crc:08x}")

    # largest first, so that the workers finish at about the same time
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="crc32c") as pool:
        entries = pool.map(checksum, sorted(files, key=lambda name: -files[name]))
        return {name: entry for name, entry in entries if entry is not None}, problems


def write_manifest(
    path: PathLike[str], step: int | None, commit_time: int | None, checksums: Mapping[str, tuple[int, str]]
) -> None:
    """Write the manifest atomically. commit_time: ns since 1970; identifies the save. Raises StoreError."""
    document = {
        "document": _DOCUMENT,
        "version": VERSION,
        "step": step,
        "commit_timestamp_nsecs": commit_time,
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "algorithm": "crc32c",
        "files": {name: {"bytes": size, "crc32c": crc} for name, (size, crc) in sorted(checksums.items())},
    }
    write_text(path, dump_json(document))


def write_text(path: PathLike[str], text: str) -> None:
    """Write a manifest or proof atomically. Raises StoreError."""
    if "://" not in fspath(path):
        folder = Path(fspath(path)).parent
        if folder.is_symlink():  # a trainer could redirect the write to another run's manifest
            raise StoreError(f"{folder}: is a link to another place; remove it")
        write_atomically(fspath(path), text)
        return
    try:
        open_path(path).write_text(text)  # buckets write objects atomically
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or error}); check your rights there") from error


def read_manifest(path: PathLike[str]) -> dict[str, Any] | None:
    """Return the content of a manifest; None if the file is missing. Raises DamagedFile for an invalid manifest."""
    if not open_path(path).exists():
        return None
    manifest = read_metadata(open_path(path))
    if manifest.get("document") != _DOCUMENT or manifest.get("version") != VERSION:
        raise DamagedFile(f"is not a checkpoint manifest of version {VERSION}")
    try:
        for entry in manifest["files"].values():
            if type(entry["bytes"]) is not int:
                raise TypeError(f"{entry['bytes']!r} bytes")
            int(entry["crc32c"], 16)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(f"is damaged: {type(error).__name__}: {error}") from error
    return manifest


def compare_sizes(manifest: Mapping[str, Any], sizes: Mapping[str, int]) -> list[Problem]:
    """Return one problem per file that is missing, new or of another length. sizes: file → bytes.

    Files of another length have changed, so their checksums need not be computed."""
    recorded = manifest["files"]
    lengths = {name: (size, recorded.get(name, {}).get("crc32c", "")) for name, size in sizes.items()}
    return check_manifest(manifest, lengths)


def check_manifest(
    manifest: Mapping[str, Any], checksums: Mapping[str, tuple[int, str]], known: Sequence[Problem] = ()
) -> list[Problem]:
    """Return `known`, then one problem per other file that is missing, new or changed since the manifest was made.

    checksums: file → (size in bytes, crc32c in hex).
    """
    recorded = manifest["files"]
    problems = list(known)
    for name in sorted((set(recorded) | set(checksums)) - {problem.path for problem in known}):
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
