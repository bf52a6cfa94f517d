"""Verifies or counts checkpoints in formats other than Orbax's: files and folders on a disk → `CheckpointProof`.

safetensors is proved by its own library. Of the others only the arrays are counted: nothing in such a file shows that
it is whole. They are never reported as unsound.
"""

import json
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from tasks.records.checkpoint_proof import CheckpointProof, Problem, reached
from tasks.verify.layout import step_number

SAFETENSORS, INDEX = ".safetensors", ".safetensors.index.json"
PROCESS_METADATA = "process_metadata"  # in the steps that Orbax's emergency manager keeps on each host
LEVANTER_METADATA, ARRAY_MARKS = "metadata.json", (".zarray", "zarr.json")
_TYPES = ("F64", "F32", "F16", "BF16")  # safetensors' names of types that may have NaN


def _count_npz(path: Path) -> int | None:
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(name.endswith(".npy") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return None


def _count_equinox(path: Path) -> int | None:
    """Return the number of arrays that follow each other, after a line of settings that users may write."""
    size, count = path.stat().st_size, 0
    try:
        with path.open("rb") as file:
            if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                file.seek(0)
            else:
                file.seek(0)
                file.readline()
            while file.tell() < size:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
                file.seek(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, 1)
                count += 1
            return count if file.tell() == size else None
    except (OSError, ValueError):
        return None


# ending of a file → name of its format, and what counts its arrays (None: they are not counted)
COUNTED: dict[str, tuple[str, Callable[[Path], int | None] | None]] = {
    ".npz": ("NumPy", _count_npz),
    ".eqx": ("Equinox", _count_equinox),
    ".msgpack": ("Flax msgpack", None),
    ".pkl": ("pickle", None),
    ".pickle": ("pickle", None),
}


def find_others(path: Path) -> list[Path]:
    """Return the checkpoints in other formats: the file itself, or those in a folder and in its subfolders."""
    if path.is_file():
        return [path] if path.suffix in COUNTED or path.name.endswith((SAFETENSORS, INDEX)) else []
    if not path.is_dir():
        return []
    if _is_levanter(path):
        return [path]
    inside = sorted(path.iterdir(), key=lambda one: (step_number(one.name.replace("-", "_")) or 0, one.name))
    found = [one for one in inside if one.is_dir() and _is_levanter(one)]
    for folder in (path, *(one for one in inside if one.is_dir() and one not in found)):
        files = sorted(one for one in folder.iterdir() if one.is_file())
        indexed = [one for one in files if one.name.endswith(INDEX)]
        found += indexed or [one for one in files if one.suffix in (*COUNTED, SAFETENSORS)]
    return found


def _is_levanter(folder: Path) -> bool:
    """Whether a folder has arrays of TensorStore below Levanter's metadata, which are written last."""
    marks = (next(folder.rglob(mark), None) for mark in ARRAY_MARKS)
    return (folder / LEVANTER_METADATA).is_file() and any(mark is not None for mark in marks)


def verify_others(path: Path, *, deep: bool) -> Iterator[CheckpointProof]:
    """Yield the proof of each checkpoint in another format."""
    for place in find_others(path):
        began = time.monotonic()
        proof = _verify_safetensors(place, deep=deep) if place.name.endswith((SAFETENSORS, INDEX)) else count(place)
        yield proof.replace(seconds=round(time.monotonic() - began, 6))


def count(place: Path) -> CheckpointProof:
    """Return the proof of a checkpoint whose arrays are only counted."""
    files = [one for one in place.rglob("*") if one.is_file()] if place.is_dir() else [place]
    if place.is_dir():
        name = "Levanter" if _is_levanter(place) else "Orbax, the part of one host"
        arrays: int | None = sum(one.name in ARRAY_MARKS for one in files) or None
    else:
        name, counts = COUNTED[place.suffix]
        arrays = counts(place) if counts else None
    return _proof(place, name, files, arrays or 0, (), ())


def _verify_safetensors(place: Path, *, deep: bool) -> CheckpointProof:
    """Return the proof of a file, or of all files that an index names. The library checks header and ranges."""
    problems: list[Problem] = []
    files, expected = [place], None
    if place.name.endswith(INDEX):
        try:
            expected = {str(key): str(name) for key, name in json.loads(place.read_text())["weight_map"].items()}
        except (OSError, ValueError, KeyError, AttributeError) as error:
            problems.append(Problem(check="metadata", path=place.name, message=f"is damaged: {error!r:.80}"))
            expected = {}
        files = [place.parent / name for name in sorted(set(expected.values()))]
    names: dict[str, str] = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as opened:
                names |= dict.fromkeys(opened.keys(), file.name)
                bad = _find_bad(opened, file) if deep else []
            problems += bad
        except FileNotFoundError:
            problems.append(
                Problem(check="ranges", path=file.name, message=f"is missing, though {place.name} names it")
            )
        except (OSError, SafetensorError) as error:
            problems.append(Problem(check="ranges", path=file.name, message=f"is damaged: {error}"))
    lost = sorted(
        key for key, name in (expected or {}).items() if names.get(key) != name and (place.parent / name).exists()
    )
    problems += [Problem(check="ranges", path=expected[key], message=f"lacks {key}") for key in lost[:10] if expected]
    checks = ("commit", "metadata", "ranges", *(("values",) if deep else ()))
    return _proof(place, "safetensors", [*files, *([place] if expected else [])], len(names), checks, problems)


def _find_bad(opened: Any, file: Path) -> list[Problem]:
    """Return a problem for each array with NaN or infinities."""
    import ml_dtypes  # noqa: F401 - NumPy's bfloat16

    found = []
    for key in opened.keys():  # noqa: SIM118 - not a mapping
        if opened.get_slice(key).get_dtype() in _TYPES:
            values = opened.get_tensor(key)
            odd = int(np.count_nonzero(~np.isfinite(values.astype(np.float64))))
            if odd:
                found.append(
                    Problem(check="values", path=file.name, message=f"{key}: {odd:,} of {values.size:,} not finite")
                )
    return found


def _proof(
    place: Path, form: str, files: Sequence[Path], arrays: int, checks: tuple[str, ...], problems: Sequence[Problem]
) -> CheckpointProof:
    folder = place if place.is_dir() else place.parent
    number = step_number(folder.name.replace("-", "_"))
    there = [one for one in files if one.is_file()]
    return CheckpointProof(
        step=number, path=str(place), ok=bool(checks) and not problems, checks=checks, problems=tuple(problems),
        arrays=arrays, files=len(there), bytes=sum(one.stat().st_size for one in there), format=form,
        levels=reached(checks, {problem.check for problem in problems}),
        verified_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )  # fmt: skip
