"""Compares the batches of two recorded steps; where they differ, the baseline's step runs in float64 with both."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from configs.environment import pass_on
from maxview_probe.evaluate.limits import SAME
from maxview_probe.observe.meaning import meanings_of
from maxview_probe.observe.observation_files import ARGUMENTS, OBSERVATION, batch_file, read_arrays
from tasks.experiments.cycles import evaluated_recordings, have_cycles
from tasks.experiments.function_figures import sizes_of
from tasks.experiments.recordings import SIDES, Both
from tasks.experiments.run_inside import Say, run_inside
from tasks.experiments.same_function import PATIENCE_S
from tasks.observe.recorder import read_observation
from tasks.records.data import DataComparison, DataKind
from tasks.records.observation import Observation

RESULT, SETTINGS, OUTPUT = "data.json", "data-settings.json", "data.log"
SHOWN = 3  # names in a sentence
EVALUATED = 5  # number of steps with other batches that are evaluated: the first ones

type Batch = dict[str, NDArray[Any]]  # meaning of each array of data → its bits


def compare_data(recordings: Both[Path], folder: Path, *, devices: int = 1, say: Say) -> DataComparison | None:
    """Return the comparison of the recorded batches; None if a recording has no data in common with the other.

    recordings: folders of the recorded steps. folder: for the result, which a second call reads again. devices: of the
    baseline's step.
    """
    sides = [list(read_batches(recording)) for recording in recordings]
    steps = min(map(len, sides))
    names = {name for side in sides for batch in side[:steps] for name in batch}
    if not names or any(batch.keys() != names for side in sides for batch in side[:steps]):
        return None
    kinds = [compare_batch(left, right) for left, right in zip(*sides, strict=False)]
    differing = [n for n, kind in enumerate(kinds) if kind != "equal"]
    if not differing:
        return DataComparison(steps=steps, kind="equal")
    kind: DataKind = "other" if "other" in kinds else "reordered"
    named = name_differing(*(side[differing[0]] for side in sides))
    found = DataComparison(steps=steps, kind=kind, first=differing[0], named=named)
    say(f"the batches differ from step {differing[0]} on: the baseline's step runs in float64 with both")
    return _evaluate(found, recordings, folder, differing[:EVALUATED], devices, say)


def compare_recorded(folder: Path, say: Say) -> DataComparison | None:
    """Return the comparison of the batches that were recorded below a folder; None if a step was not recorded there.

    A recording that cannot be read is as good as none.
    """
    recordings = (folder / SIDES[0], folder / SIDES[1])
    try:
        observations = (read_observation(recordings[0]), read_observation(recordings[1]))
        recordings = evaluated_recordings(observations, recordings, cycles=have_cycles(observations))
        records = [json.loads((one / OBSERVATION).read_text(encoding="utf-8")) for one in recordings]
        found = compare_data(recordings, folder, devices=max(one.get("devices", 1) for one in records), say=say)
        return found and found.replace(starts_equal=_start_equal(observations))
    except (OSError, ValueError, BadZipFile):
        return None


def _start_equal(observations: Both[Observation]) -> bool:
    left, right = ({(one.role, one.meaning): one.digest for one in its.arguments} for its in observations)
    return left == right and bool(left) and all(left.values())


def read_batches(recording: Path) -> Iterator[Batch]:
    """Yield the data of each recorded call; of an array that a call does not store, the first call's."""
    first = read_arrays(recording / ARGUMENTS)
    names = list(first)
    record = json.loads((recording / OBSERVATION).read_text(encoding="utf-8"))
    feeds = record.get("feeds") or [None] * len(names)  # the result that becomes this argument in the next call
    data = {
        name: meaning
        for name, (role, meaning), fed in zip(names, meanings_of(names), feeds, strict=True)
        if role == "data" and fed is None
    }
    batch = {meaning: first[name] for name, meaning in data.items()}
    yield batch
    number = 1
    while batch_file(recording, number).exists():
        stored = read_arrays(batch_file(recording, number))
        batch = batch | {meaning: stored[name] for name, meaning in data.items() if name in stored}
        yield batch
        number += 1


def compare_batch(left: Batch, right: Batch) -> DataKind:
    """Return whether two batches are equal in every bit, or have the same rows in another order."""
    if all(np.array_equal(left[name], right[name]) for name in left):
        return "equal"
    rows = [sorted(_rows(batch)) for batch in (left, right)]
    return "reordered" if rows[0] and rows[0] == rows[1] else "other"


def name_differing(left: Batch, right: Batch) -> str:
    """Return the arrays that differ between two batches, in words; numbers with both values."""
    names = [name for name in left if not np.array_equal(left[name], right[name])]
    shown = [
        f"{name} {left[name].item():.6g} → {right[name].item():.6g}"
        if left[name].size == right[name].size == 1 and left[name].dtype.kind in "fiu"
        else name
        for name in names[:SHOWN]
    ]
    return ", ".join(shown) + (", …" if len(names) > SHOWN else "")


def _rows(batch: Batch) -> list[bytes]:
    """Return the bytes of each row of a batch; empty if its arrays have no common first axis."""
    arrays = [batch[name] for name in sorted(batch)]
    if len({array.shape[:1] for array in arrays}) != 1 or not arrays[0].ndim:
        return []
    return [b"".join(array[row].tobytes() for array in arrays) for row in range(len(arrays[0]))]


def _evaluate(
    found: DataComparison, recordings: Both[Path], folder: Path, steps: list[int], devices: int, say: Say
) -> DataComparison:
    result = folder / RESULT
    settings = {"baseline": str(recordings[0]), "candidate": str(recordings[1]), "steps": steps}
    identity = [str((recording / ARGUMENTS).stat().st_mtime_ns) for recording in recordings]
    known = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    if known.get("identity") != identity:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        environment = pass_on(os.environ) | {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        }
        problem = run_inside(
            "the evaluation of the batches", "evaluate.compare_batches", (folder / SETTINGS, result),
            python=sys.executable, environment=environment, output=folder / OUTPUT, patience_s=PATIENCE_S, say=say,
        )  # fmt: skip
        if problem:
            return found.replace(problem=problem)
        known = json.loads(result.read_text(encoding="utf-8")) | {"identity": identity}
        result.write_text(json.dumps(known), encoding="utf-8")
    if "error" in known:
        return found.replace(problem=known["error"])
    rows = [one["results"] for one in known["states"]]
    if any(row["norm"] is None or row["float64"] is None for state in rows for row in state):
        return found.replace(problem="a result of the baseline's step is NaN or infinite")
    gaps = [row["float64"] / size for state in rows for row, size in zip(state, sizes_of(state), strict=True)]
    gap = max(gaps, default=0.0)
    evaluated = tuple(one["state"] for one in known["states"])
    return found.replace(evaluated=evaluated, gap=gap, are_equal=gap <= SAME)
