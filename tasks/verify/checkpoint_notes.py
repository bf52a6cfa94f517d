"""Notes the arrays of a checkpoint, one array in memory at a time, as the probe notes those of a running step."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maxview_probe.observe.array_notes import type_of
from maxview_probe.observe.meaning import meaning_of_array
from tasks.records.restored import NotedState
from tasks.verify.compare_checkpoints import open_trees
from tasks.verify.compare_restored import note_values
from tasks.verify.layout import CheckpointError, find_steps, name_steps

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "U32": "uint32", "U8": "uint8", "I8": "int8", "BOOL": "bool"}  # fmt: skip
SINGLE_FILES = (".npz", ".safetensors")


def note_checkpoint(path: str | os.PathLike[str], restored: NotedState) -> NotedState:
    """Return the notes of a checkpoint's arrays: an Orbax step, a `.npz` or a `.safetensors` file.

    restored: the state of the run that read it; arrays that several processes hold there are noted by their parts.
    Raises CheckpointError for a missing, unfinished or damaged one, and for a folder of several steps.
    """
    parts = {(one.role, one.meaning): tuple(part.box for part in one.parts) for one in restored.arrays if one.parts}
    notes = []
    for name, values in _read(path):
        place = meaning_of_array(name)
        notes.append(note_values(name, place, values, parts.get(place, ())))
    return NotedState(title=str(path), arrays=tuple(notes))


def _read(path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    """Yield name and values of each array."""
    try:
        if str(path).endswith(".npz"):
            with np.load(path, allow_pickle=False) as stored:
                yield from ((name.replace("/", "."), stored[name]) for name in stored.files)
            return
        if str(path).endswith(".safetensors"):
            yield from _read_safetensors(Path(path))
            return
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    steps = find_steps(path)
    if len(steps) > 1:
        raise CheckpointError(f"{path}: holds {len(steps)} checkpoints ({name_steps(steps)}); give one")
    for tree in open_trees(steps[0]):
        for spec in tree.arrays:
            try:
                yield spec.name, np.asarray(tree.side.open(spec).read().result())
            except (ValueError, OSError, KeyError, NotImplementedError) as error:
                raise CheckpointError(f"{path}: {spec.name} cannot be read; verify it with --deep") from error


def _read_safetensors(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and values; the file begins with the length of a JSON header, which has each array's place."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError("its header is longer than the file")
        header: Mapping[str, Any] = json.loads(file.read(length))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            kind = type_of(_TYPES.get(entry["dtype"], "")) if entry["dtype"] in _TYPES else None
            if kind is None:
                raise ValueError(f"{name} has the type {entry['dtype']}")
            begin, end = entry["data_offsets"]
            file.seek(8 + length + begin)
            data = file.read(end - begin)
            if len(data) != math.prod(entry["shape"]) * kind.itemsize:
                raise ValueError(f"{name} is cut off")
            yield name, np.frombuffer(data, kind).reshape(entry["shape"])
