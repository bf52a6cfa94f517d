"""Compares the training states of two checkpoints: trees, dtypes, shardings and values, without a trainer or a model.

Both checkpoints are given, or are of the last common step of two runs or of two arms. An arm is one side of a
comparison of runs.
"""

import base64
import binascii
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etils import epath

from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference, ValueDifference
from tasks.records.run import RunRecord
from tasks.store.store import Store
from tasks.verify.array_index import ArraySpec
from tasks.verify.array_pairs import ArrayPair, first_difference, pair_arrays
from tasks.verify.layout import (
    CheckpointError,
    DamagedFile,
    FoundStep,
    find_steps,
    find_unfinished,
    name_steps,
    open_path,
    read_metadata,
    reporting_unreachable_buckets,
)
from tasks.verify.manifest import manifest_path
from tasks.verify.ocdbt import low_load_context, shorten_message
from tasks.verify.value_differences import CheckpointSide, Job, UnreadableError, compare_arrays, reusing_memory
from tasks.verify.verification import Progress, Verification, count_progress

type ProvedRun = tuple[RunRecord, CheckpointProof]


def find_common(runs: Sequence[RunRecord]) -> tuple[ProvedRun, ProvedRun] | None:
    """Return each arm's first run, with its proof of the last step that is verified in both runs.

    None without such a step, or if `runs` are not of two arms.
    """
    first: dict[str, RunRecord] = {}
    for run in runs:
        first.setdefault(run.arm, run)
    if len(first) != 2:
        return None
    one, other = first.values()
    left, right = ({proof.step: proof for proof in run.proofs if proof.ok} for run in (one, other))
    common = [step for step in left.keys() & right.keys() if step is not None]
    if not common:
        return None
    return (one, left[max(common)]), (other, right[max(common)])


def compare_arms(
    runs: Sequence[RunRecord],
    store: Store,
    *,
    known: CheckpointDifference | None = None,
    on_progress: Progress | None = None,
) -> CheckpointDifference | None:
    """Return the difference of two arms' checkpoints at their last common step (`find_common`); None without one.

    known: an earlier result, which is returned if it compared the same two saves. If checkpoints cannot be compared,
    e.g. of different models, the result has a `problem`.
    """
    sides = find_common(runs)
    if sides is None:
        return None
    proofs = [proof for _, proof in sides]
    committed = (proofs[0].committed_at, proofs[1].committed_at)
    paths = [_find_saved(run, proof, store) for run, proof in sides]
    names = (str(paths[0]), str(paths[1]))
    if known is not None and (known.path, known.other_path) == names and known.committed == committed:
        return known
    try:
        return compare_checkpoints(*paths, on_progress=on_progress)
    except CheckpointError as error:
        return CheckpointDifference(
            step=proofs[0].step, path=names[0], other_path=names[1], committed=committed, problem=str(error)
        )


def find_frozen(run: RunRecord, store: Store) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the parameters with equal bits in a run's first and last verified checkpoint, and all its parameters.

    None without two checkpoints that can be read.
    """
    proofs = sorted((proof for proof in run.proofs if proof.ok and proof.step is not None), key=_step_of)
    if len(proofs) < 2:
        return None
    try:
        found = compare_checkpoints(*(_find_saved(run, proof, store) for proof in (proofs[0], proofs[-1])))
    except CheckpointError:
        return None
    parameters = [array for array in found.arrays if array.role == "parameter" and array.values is not None]
    equal = sorted(array.names[0] for array in parameters if array.exact)
    return tuple(equal), tuple(sorted(array.names[0] for array in parameters))


def _step_of(proof: CheckpointProof) -> int:
    assert proof.step is not None
    return proof.step


def _find_saved(run: RunRecord, proof: CheckpointProof, store: Store) -> epath.Path:
    """Return the current path of a verified checkpoint.

    This is the recorded path if it exists, is in a bucket or belongs to no plan; else the path in this store.
    """
    place = epath.Path(proof.path)
    if "://" in proof.path or place.exists() or run.plan is None or run.plan.files.checkpoints is None:
        return place
    directory = store.run(run.plan.run_name)
    here = Path(directory.path, run.plan.files.checkpoints, place.name)
    return epath.Path(here if here.exists() else directory.place.address_of(here))


def compare_checkpoints(
    path: str | os.PathLike[str], other: str | os.PathLike[str], *, on_progress: Progress | None = None
) -> CheckpointDifference:
    """Return the difference between two given steps, or between two runs at their last common step.

    Raises CheckpointError for an unreadable or incomplete checkpoint, for runs without a common step, and for different
    models, with the first parameter whose path or shape differs.
    """
    with reusing_memory(), reporting_unreachable_buckets(open_path(path), open_path(other)):
        steps = _choose_steps(path, other)
        found = _compare_steps(*steps, on_progress)
        given = [one.path for one in steps] == [open_path(path), open_path(other)]
        if given or steps[0].step is None:
            return found
        return found.replace(lacking=tuple(_find_lacking((path, other), steps[0].step)))


def _find_lacking(paths: Sequence[str | os.PathLike[str]], common: int) -> list[str]:
    """Return a sentence for each step after `common` that one run lacks."""
    runs = [{found.step: found.path for found in find_steps(path) if (found.step or 0) > common} for path in paths]
    begun = [{found.step for found in find_unfinished(path, list(runs[n]))} for n, path in enumerate(paths)]
    sentences = []
    for number, path in enumerate(paths):
        for step in sorted((runs[1 - number].keys() | begun[number]) - runs[number].keys(), key=lambda one: one or 0):
            if (step or 0) <= common:
                continue
            why = "its save was not finished" if step in begun[number] else "the other has it"
            sentences.append(f"{os.fspath(path)} lacks step {step}: {why}")
    return sentences


def _compare_steps(step: FoundStep, its: FoundStep, on_progress: Progress | None) -> CheckpointDifference:
    started = time.monotonic()
    left, right = open_tree(step), open_tree(its)
    pairs = pair_arrays(left.arrays, right.arrays)
    if different := first_difference(pairs):
        raise CheckpointError(
            f"{its.path}: is a checkpoint of another model than {step.path}: {different}; give two checkpoints of one "
            "model"
        )
    jobs = {place: job for place, pair in enumerate(pairs) if (job := _make_job(pair, left, right)) is not None}
    compared = [spec for pair in pairs if pair.ours and pair.theirs for spec in (*pair.ours, *pair.theirs)]
    count = count_progress(on_progress, "values", sum(spec.decoded_bytes for spec in compared))
    try:
        differences = compare_arrays(list(jobs.values()), count)
    except UnreadableError as error:
        sides = (error.job.ours.folder, error.job.theirs.folder)
        cause = shorten_message(error.__cause__ or error)
        raise CheckpointError(
            f"{sides[0]}: {error}, here or in {sides[1]}: {cause}; verify both with --deep"
        ) from error
    values = dict(zip(jobs, differences, strict=True))
    arrays = [_describe_pair(pair, left, right, values.get(place)) for place, pair in enumerate(pairs)]
    return CheckpointDifference(
        step=step.step,
        path=str(step.path),
        other_path=str(its.path),
        arrays=tuple(sorted(arrays, key=_by_size)),
        seconds=round(time.monotonic() - started, 3),
        committed=(left.committed_at, right.committed_at),
    )


def _by_size(array: ArrayDifference) -> tuple[bool, float, float, bool, str]:
    """Sort key: first, state arrays that were not compared; then by non-finite differences and norm, descending."""
    values = array.values
    uncompared = values is None and array.is_state
    apart = (-values.not_finite, -values.norm) if values else (0, 0.0)
    return not uncompared, *apart, not (values and values.differing), (array.names or array.other_names)[0]


def _choose_steps(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> tuple[FoundStep, FoundStep]:
    ours, theirs = find_steps(path), find_steps(other)
    if ours[0].path == open_path(path) and theirs[0].path == open_path(other):  # two given steps may differ
        return ours[0], theirs[0]
    there = {found.step: found for found in theirs}
    common = [found for found in ours if found.step in there]
    if common:
        return common[-1], there[common[-1].step]
    raise CheckpointError(
        f"{_parent(theirs)}: has no step in common with {_parent(ours)}: it has {name_steps(theirs)}, not "
        f"{name_steps(ours)}; name a step of each"
    )


def _parent(found: Sequence[FoundStep]) -> epath.Path:
    return found[0].path if len(found) == 1 else found[0].path.parent


@dataclass(frozen=True)
class SavedTree:
    """The arrays of an item of a step. `side` opens the arrays; `sharding`: array name → sharding in words."""

    arrays: tuple[ArraySpec, ...]
    side: CheckpointSide
    sharding: Mapping[str, str]
    committed_at: str | None


def open_tree(found: FoundStep) -> SavedTree:
    """Return the training state of a step, its largest item: others have for example the position in the data."""
    return max(open_trees(found), key=lambda tree: sum(spec.decoded_bytes for spec in tree.arrays))


def open_trees(found: FoundStep) -> list[SavedTree]:
    """Return the items of a step that hold arrays. Raises CheckpointError for an unfinished or damaged one."""
    folder = found.path
    verification = Verification(found, manifest_path(folder), "none", deep=False, on_progress=None)
    proof = verification.run()
    if not proof.ok:
        path, message = next(((one.path, one.message) for one in proof.problems), (".", "was removed meanwhile"))
        raise CheckpointError(f"{folder}: {message if path == '.' else f'is not complete: {path} {message}'}")
    if not verification.indexes:
        raise CheckpointError(f"{folder}: holds no tree of arrays; give a checkpoint of a training")
    return [
        SavedTree(
            tuple(index.arrays.values()),
            CheckpointSide(folder / item.prefix, low_load_context()),
            _read_sharding(folder / item.prefix),
            proof.committed_at,
        )
        for item, index in verification.indexes
    ]


def _read_sharding(folder: epath.Path) -> dict[str, str]:
    """Return array name → sharding in words, from Orbax's record; {} without a record. Omits unreadable entries."""
    shardings: dict[str, str] = {}
    try:
        content = read_metadata(folder / "_sharding")
    except DamagedFile:  # the file is missing: `open_tree` rejects damaged ones
        return shardings
    for key, text in content.items():
        try:
            shardings[base64.urlsafe_b64decode(key).decode()] = _name_sharding(json.loads(text))
        except (binascii.Error, ValueError, KeyError, TypeError, AttributeError):
            continue
    return shardings


def _name_sharding(layout: Mapping[str, Any]) -> str:
    """Return a sharding in words, without mesh axes of size 1: `(fsdp, -, tensor) over fsdp=8, tensor=2`.

    Returns "one device" if all axes have size 1, and the type of shardings other than NamedSharding.
    """
    if layout.get("sharding_type") != "NamedSharding":
        return str(layout.get("sharding_type"))
    sizes = {axis: size for axis, size in zip(layout["axis_names"], layout["shape"], strict=True) if size > 1}
    spec = []
    for axes in layout["partition_spec"]:
        named = axes if isinstance(axes, list) else [axes]
        spec.append("+".join(axis for axis in named if axis in sizes) or "-")
    while spec and spec[-1] == "-":
        spec.pop()
    mesh = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
    return f"({', '.join(spec)}) over {mesh}" if sizes else "one device"


def _make_job(pair: ArrayPair[ArraySpec], left: SavedTree, right: SavedTree) -> Job | None:
    """Return the job that compares a pair, its stacked array first; None if a side is missing or the shapes differ."""
    if not (pair.ours and pair.theirs):
        return None
    sides = ((left.side, pair.ours), (right.side, pair.theirs))
    (one, specs), (other, others) = sides if len(pair.ours) == 1 else sides[::-1]
    if pair.layer_axis is None and specs[0].shape != others[0].shape:
        return None
    return Job(one, specs[0], other, others, pair.layer_axis)


def _describe_pair(
    pair: ArrayPair[ArraySpec], left: SavedTree, right: SavedTree, values: ValueDifference | None
) -> ArrayDifference:
    first, second = (specs[0] if specs else None for specs in (pair.ours, pair.theirs))
    plain = pair.layer_axis is None
    return ArrayDifference(
        role=pair.role,
        names=tuple(spec.name for spec in pair.ours),
        other_names=tuple(spec.name for spec in pair.theirs),
        layer_axis=pair.layer_axis,
        shape=first.shape if first else (),
        other_shape=second.shape if second else (),
        dtype=first.dtype if first else "",
        other_dtype=second.dtype if second else "",
        sharding=left.sharding.get(first.name) if first and plain else None,
        other_sharding=right.sharding.get(second.name) if second and plain else None,
        values=_by_side(values, pair),
    )


def _by_side(values: ValueDifference | None, pair: ArrayPair[ArraySpec]) -> ValueDifference | None:
    """Return the values with `lost` in the order (ours, theirs): `_make_job` may have swapped the sides."""
    if values is None or len(pair.ours) == 1:
        return values
    return values.replace(lost=values.lost[::-1])
