"""Verifies the steps of Orbax checkpoints: returns one proof per step, with the problems that the checks found."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tasks.records.checkpoint_proof import CheckpointProof, Problem, reached
from tasks.verify.array_index import ArraySpec, Index
from tasks.verify.commit_marks import check_commit, check_unfinished, commit_time, show_time
from tasks.verify.file_lengths import check_ranges
from tasks.verify.layout import (
    STEP_METADATA,
    TMP_MARK,
    BucketError,
    CheckpointError,
    DamagedFile,
    FoundStep,
    Item,
    find_items,
    find_steps,
    find_unfinished,
    list_files,
    name_steps,
    open_path,
    raise_if_unreachable,
    read_metadata,
    reporting_unreachable_buckets,
    step_number,
)
from tasks.verify.manifest import (
    check_manifest,
    checksum_files,
    compare_sizes,
    find_gone,
    manifest_path,
    read_manifest,
    write_manifest,
)
from tasks.verify.metadata import MetadataCheck
from tasks.verify.ocdbt import read_index
from tasks.verify.other_formats import PROCESS_METADATA, count, verify_others
from tasks.verify.values import check_values

Mode = Literal["record", "check", "none"]
_LISTING_LAG_S = 0.5  # a bucket's listing may be this many seconds old
_DELETION_PAUSE_S = 0.1  # seconds between two listings; longer than the deletion of a file takes
Progress = Callable[[str, int, int], None]  # (name of the check, number of bytes done, number of all bytes)


def verify_checkpoint(
    path: str | os.PathLike[str],
    *,
    manifest: os.PathLike[str] | None = None,
    mode: Mode = "none",
    deep: bool = False,
    on_progress: Progress | None = None,
) -> CheckpointProof:
    """Return the proof of one step, from checks of its commit marks, metadata and byte ranges.

    path: the folder of a step, or of a run with one step. manifest: path of the manifest, the file with the crc32c of
    every file; by default `manifest_path` of the step.
    mode: "check" compares the checkpoint with its manifest, which must exist; "record" compares if the manifest is of
    the same save, and else writes a manifest, if the checkpoint has no problems; "none" ignores the manifest.
    deep: whether to decode all values. on_progress may be called from other threads. Paths of problems are relative to
    the step's folder, except the manifest's.

    Raises CheckpointError if there is no step at `path`, or several, or if the bucket is unreachable, and StoreError if
    the manifest cannot be written. For an unfinished or damaged checkpoint, and in mode "check" for a missing manifest,
    the proof is not `ok`.
    """
    steps = find_steps(path)
    if len(steps) > 1:
        raise CheckpointError(f"{path}: holds {len(steps)} checkpoints ({name_steps(steps)}); give one")
    return _verify_step(steps[0], manifest or manifest_path(steps[0].path), mode, deep, on_progress)


def _verify_step(
    found: FoundStep, manifest: os.PathLike[str], mode: Mode, deep: bool, on_progress: Progress | None
) -> CheckpointProof:
    """Return the proof of a step. In a bucket, a seemingly incomplete step is verified twice: listings may be stale.

    Raises BucketError for an unreachable bucket.
    """
    verification = Verification(found, manifest, mode, deep, on_progress)
    with reporting_unreachable_buckets(found.path):
        proof = verification.run()
        lacking = {problem.check for problem in proof.problems} & {"commit", "metadata", "ranges"}
        if lacking and "://" in str(found.path):
            raise_if_unreachable(found.path)
            time.sleep(_LISTING_LAG_S)
            proof = verification.run()
        if proof.problems:
            raise_if_unreachable(found.path)
        return proof


def verify_saved(path: str | os.PathLike[str], *, manifest: os.PathLike[str]) -> CheckpointProof:
    """Return the proof of a step that the run's log announced, with its manifest recorded or compared.

    If the folder is missing and newer steps exist, the proof is `retired`: a checkpoint manager deletes the oldest
    steps. The proof of any other missing or invalid checkpoint has a problem. Raises BucketError for an unreachable
    bucket.
    """
    folder = open_path(path)
    found = FoundStep(step_number(folder.name), folder)
    if not folder.exists() and _has_newer(found):
        return _prove_gone(found, retired=True)
    try:
        return verify_checkpoint(path, manifest=manifest, mode="record")
    except BucketError:
        raise
    except CheckpointError as error:
        reason = str(error).removeprefix(f"{folder}: ").partition(";")[0]
        return _prove_unchecked(found, f"{reason}, though the run announced this save")


def verify_checkpoints(
    path: str | os.PathLike[str],
    *,
    mode: Mode = "none",
    deep: bool = False,
    on_progress: Progress | None = None,
) -> Iterator[CheckpointProof]:
    """Yield the proof of each step at `path` (a run's folder, its checkpoints folder, or one step), sorted by step.

    An unfinished save beside them has a proof with a problem, unless a later one has finished the step.
    A step that has a manifest, but no folder any more, has a proof too: it is `retired` if there are steps and all are
    newer, because a checkpoint manager deletes the oldest steps; otherwise it has a problem. Raises CheckpointError if
    there is neither a step nor such a manifest, and between two proofs if the bucket becomes unreachable.
    """
    root = open_path(path)
    steps: list[FoundStep] = []
    try:
        with reporting_unreachable_buckets(root):
            steps = find_steps(root)
        gone = find_gone(root)
    except CheckpointError:
        gone = [] if "://" in str(root) else find_gone(root)
        if not gone:
            others = list(verify_others(Path(root), deep=deep)) if "://" not in str(root) else []
            if others and mode != "none":
                raise CheckpointError(
                    f"{root}: is no Orbax checkpoint, and --record and --check are for these"
                ) from None
            yield from others
            if others:
                return
            raise
    lost = find_unfinished(root, [found.step for found in steps]) if steps else []
    oldest = min((found.step for found in steps if found.step is not None), default=-1)
    for found in sorted([*steps, *gone, *lost], key=lambda found: found.step or 0):
        if found in gone:
            yield _prove_gone(found, retired=found.step is not None and found.step < oldest)
        else:
            proof = _verify_step(found, manifest_path(found.path), mode, deep, on_progress)
            # a host keeps the index of all arrays, and its own chunks
            is_part = proof.problems and TMP_MARK not in proof.path and (found.path / PROCESS_METADATA).exists()
            yield count(Path(found.path)).replace(step=found.step, arrays=proof.arrays) if is_part else proof


def _has_newer(step: FoundStep) -> bool:
    """Return whether a newer step is beside this step: then a checkpoint manager may have deleted this step."""
    try:
        beside = find_steps(step.path.parent)
    except CheckpointError:
        return False
    return any((found.step or 0) > (step.step or 0) for found in beside)


def _prove_gone(found: FoundStep, *, retired: bool) -> CheckpointProof:
    message = (
        f"the step's folder is gone, but its manifest {manifest_path(found.path)} exists: put the checkpoint back, "
        "or remove the manifest too if the checkpoint was removed on purpose"
    )
    return _prove_unchecked(found, "" if retired else message)


def _prove_unchecked(found: FoundStep, problem: str) -> CheckpointProof:
    """Return the proof of a step that could not be checked: with the problem, or retired if `problem` is empty."""
    return CheckpointProof(
        step=found.step,
        path=str(found.path),
        ok=False,
        checks=("commit",),
        problems=(Problem(check="commit", path=".", message=problem),) if problem else (),
        verified_at=_now(),
        retired=not problem,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def count_progress(on_progress: Progress | None, check: str, total: int) -> Callable[[int], None] | None:
    """Return a thread-safe function that adds numbers of bytes and reports the sum; None if `on_progress` is None."""
    if on_progress is None:
        return None
    done = 0
    lock = threading.Lock()

    def count(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            on_progress(check, done, total)

    return count


@dataclass
class Verification:
    """One verification of one step. After `run`, `indexes` contains (item, index) for each tree of arrays."""

    found: FoundStep
    manifest: os.PathLike[str]
    mode: Mode
    deep: bool
    on_progress: Progress | None

    def run(self) -> CheckpointProof:
        """Return the proof; see `verify_checkpoint`."""
        started = time.monotonic()
        self.checks: list[str] = []
        self.problems: list[Problem] = []
        self.recorded: os.PathLike[str] | None = None
        self.recorded_before = retired = False
        self.metadata: dict[str, Any] = {}
        self.timings: dict[str, float] = {}
        self.indexes: list[tuple[Item, Index]] = []
        self.folder = self.found.path
        try:
            with self._timed("commit"):
                self.files = {} if TMP_MARK in self.folder.name else list_files(self.folder)
            self._run_checks()
        except CheckpointError as error:
            self.files = {}
            self._report("commit", ".", str(error).removeprefix(str(self.folder)).lstrip("/: "))
        if self._is_being_removed():
            self.problems, self.recorded = [], None
            retired = _has_newer(self.found)
            if not retired:
                self._report("commit", ".", "was removed during the verification, so nothing was proved")
        arrays = sum(len(index.arrays) for _, index in self.indexes)
        failed = {problem.check for problem in self.problems}
        return CheckpointProof(
            step=self.found.step,
            path=str(self.folder),
            ok=not self.problems and not retired,
            checks=tuple(self.checks),
            problems=tuple(self.problems),
            arrays=arrays,
            files=len(self.files),
            bytes=sum(self.files.values()),
            manifest=str(self.recorded) if self.recorded else None,
            tree_digest=self._tree_digest() if arrays else None,
            seconds=round(time.monotonic() - started, 6),
            verified_at=_now(),
            levels=() if retired else reached(self.checks, failed, recorded_before=self.recorded_before),
            timings={name: round(seconds, 6) for name, seconds in self.timings.items()},
            begun_at=show_time(self.metadata.get("init_timestamp_nsecs")),
            committed_at=show_time(self.metadata.get("commit_timestamp_nsecs")),
            retired=retired,
        )

    @contextmanager
    def _timed(self, check: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.timings[check] = self.timings.get(check, 0.0) + time.monotonic() - started

    def _run_checks(self) -> None:
        with self._timed("commit"):
            items = self._check_commit()
        if items is None:
            return
        self._check_metadata_and_ranges(items)
        if self.mode != "none":
            with self._timed("manifest"):
                self._check_manifest()
        if self.deep:
            with self._timed("values"):
                self._check_values()

    def _check_commit(self) -> list[Item] | None:
        """Return the items of a step; None if further checks are pointless."""
        self.checks.append("commit")
        unfinished = check_unfinished(self.folder, self.files)
        if unfinished:
            self.problems.append(unfinished)
            return None
        odd = [name for name, size in self.files.items() if size < 0]
        if odd:  # no save creates pipes or devices, and reading a pipe may never end
            self.files = {name: size for name, size in self.files.items() if size >= 0}
            message = "is a pipe or a device, which no save leaves: nothing was read of this checkpoint; remove it"
            for name in sorted(odd):
                self._report("commit", name, message)
            return None
        metadata: dict[str, Any] | None = None
        try:
            metadata = read_metadata(self.folder / STEP_METADATA)
        except DamagedFile as damage:
            self._report("commit", STEP_METADATA, str(damage))
        self.metadata = metadata or {}
        items = find_items(self.metadata.get("item_handlers"), self.files)
        self.problems += check_commit(self.folder, self.files, items, metadata)
        if metadata is not None and not metadata.get("commit_timestamp_nsecs"):
            return None  # unfinished: other checks would only report consequences
        return items

    def _check_values(self) -> None:
        self.checks.append("values")
        total = sum(spec.decoded_bytes for _, index in self.indexes for spec in index.arrays.values())
        count = count_progress(self.on_progress, "values", total)
        for item, index in self.indexes:
            self._add(item, check_values(self.folder / item.prefix, index, count))

    def _check_metadata_and_ranges(self, items: list[Item]) -> None:
        self.checks += ["metadata", "ranges"]
        ranges: list[tuple[Item, list[Problem]]] = []
        for item in items:
            files = {
                name.removeprefix(item.prefix): n for name, n in self.files.items() if name.startswith(item.prefix)
            }
            if not files:
                self._report("metadata", item.prefix, "is missing, though the checkpoint's metadata names it")
            elif item.is_tree:
                with self._timed("ranges"):
                    index = read_index(self.folder / item.prefix, files)
                    ranges.append((item, check_ranges(self.folder / item.prefix, index, files)))
                self.indexes.append((item, index))
                with self._timed("metadata"):
                    self._add(item, MetadataCheck(self.folder / item.prefix, files, index).run())
        if not items:
            self._report("metadata", ".", "holds no item: all arrays are gone")
        for item, problems in ranges:
            self._add(item, problems)

    def _check_manifest(self) -> None:
        committed_ns = commit_time(self.metadata)
        try:
            recorded = read_manifest(self.manifest)
        except DamagedFile as damage:
            self._report("manifest", str(self.manifest), str(damage))
            self.checks.append("manifest")
            return
        if self.mode == "check" and recorded is None:
            message = "was never recorded; record it with --record while the checkpoint is known to be good"
            self._report("manifest", str(self.manifest), message)
            return
        # A resumed run may have saved the step again. "record" then replaces the manifest; "check" reports differences.
        stale = recorded is not None and recorded.get("commit_timestamp_nsecs") != committed_ns
        if self.mode == "record" and (recorded is None or stale):
            if self.problems:
                return  # a manifest of a damaged checkpoint would declare the damage valid
            sums, unreadable = self._checksum(self.files)
            self.problems += unreadable
            vanished = sorted(self.files.keys() - sums.keys() - {problem.path for problem in unreadable})
            message = "vanished while the checksums were computed: another process deletes files of this checkpoint"
            for name in vanished:
                self._report("manifest", name, message)
            if not unreadable and not vanished:
                write_manifest(self.manifest, self.found.step, committed_ns, sums)
                self.recorded = self.manifest
            return
        assert recorded is not None
        self.recorded, self.recorded_before = self.manifest, True
        misfits = compare_sizes(recorded, self.files)
        wrong = {problem.path for problem in misfits}
        alike = {name: size for name, size in self.files.items() if name not in wrong}
        sums, unreadable = self._checksum(alike)
        self.problems += check_manifest(recorded, sums, [*misfits, *unreadable])

    def _checksum(self, files: Mapping[str, int]) -> tuple[dict[str, tuple[int, str]], list[Problem]]:
        self.checks.append("manifest")
        return checksum_files(self.folder, files, count_progress(self.on_progress, "manifest", sum(files.values())))

    def _is_being_removed(self) -> bool:
        """Wait while files of a step with problems disappear; return whether the whole folder is gone in the end."""
        files = self.files
        while self.problems and self.folder.exists():
            time.sleep(_DELETION_PAUSE_S)
            try:
                left = list_files(self.folder)
            except CheckpointError:  # `run` has reported the same error
                return False
            if left.keys() >= files.keys():
                return False  # no file disappears: the problems are real
            files = left
        return bool(self.problems) and not self.folder.exists()

    def _report(self, check: Literal["commit", "metadata", "manifest"], path: str, message: str) -> None:
        self.problems.append(Problem(check=check, path=path, message=message))

    def _add(self, item: Item, problems: list[Problem]) -> None:
        self.problems += [p.replace(path=item.prefix + p.path) for p in problems]

    def _tree_digest(self) -> str | None:
        if not all(index.whole for _, index in self.indexes):
            return None
        several = len(self.indexes) > 1
        arrays = {
            (item.prefix if several else "") + spec.name: spec
            for item, index in self.indexes
            for spec in index.arrays.values()
        }
        return tree_digest(arrays)


def tree_digest(arrays: Mapping[str, ArraySpec]) -> str:
    """Return the SHA-256 of (path, shape, dtype) of all arrays, sorted by path; it does not depend on the chunks."""
    rows = [[path, list(spec.shape), spec.dtype] for path, spec in sorted(arrays.items())]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
