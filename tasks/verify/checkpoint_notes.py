"""Notes the arrays of a checkpoint, one array in memory at a time, as the probe notes those of a running step."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from maxview_probe.observe.meaning import meaning_of_array
from tasks.records.restored import NotedState
from tasks.verify.compare_checkpoints import open_trees
from tasks.verify.compare_restored import note_values
from tasks.verify.layout import CheckpointError, find_steps, name_steps

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
    except (OSError, ValueError, KeyError, SafetensorError) as error:
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
    """Yield name and values of a file's arrays."""
    with safe_open(path, framework="numpy") as opened:
        for name in opened.keys():  # noqa: SIM118 - not a mapping
            yield name, opened.get_tensor(name)
