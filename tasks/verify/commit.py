"""Turns the marks that Orbax leaves when a save is complete into problems.

Where a save is complete shows in three places. On a local disk the folder has its final name only after the save
(`9.orbax-checkpoint-tmp` before); on gs:// it has it from the beginning. `_CHECKPOINT_METADATA` gets its commit time
just before that. `commit_success.txt` is written last: on gs:// by every version, on local disks since Orbax 0.12 only.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from etils import epath

from tasks.records import Problem
from tasks.verify.layout import (
    COMMIT_MARKER,
    STEP_METADATA,
    TMP_MARK,
    V1_MARKER,
    DamagedFile,
    Item,
    read_small,
    step_number,
)

LAST_NS = 1 << 63  # Orbax counts with 64 bits


def commit_time(metadata: Mapping[str, Any] | None) -> int | None:
    """When the save was committed, in ns since 1970; None without such a time."""
    time_ns = (metadata or {}).get("commit_timestamp_nsecs")
    return time_ns if _is_time(time_ns) else None


def show_time(time_ns: Any) -> str | None:
    """A time of Orbax as ISO 8601; None of what is none."""
    if not _is_time(time_ns):
        return None
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def _is_time(time_ns: Any) -> bool:
    return type(time_ns) is int and 0 < time_ns < LAST_NS


def check_unfinished(folder: epath.Path, files: Mapping[str, int]) -> Problem | None:
    """The one problem of a save that is not over, or of an emptied step; None if there is something to check."""
    if TMP_MARK in folder.name:
        message = (
            "is an unfinished save: the run is still writing it, or was killed while it did; nothing can be restored "
            f"from it as it stands, and earlier checkpoints, if there are any, lie beside it in {folder.parent}"
        )
        return Problem(check="commit", path=".", message=message)
    if not files:
        message = (
            "the step's folder is empty, though Orbax still lists the step: its files were deleted; delete the folder"
        )
        return Problem(check="commit", path=".", message=message)
    return None


def check_commit(
    folder: epath.Path, files: Mapping[str, int], items: Sequence[Item], metadata: Mapping[str, Any] | None
) -> list[Problem]:
    """What is wrong with the commit marks of a step; `metadata` is its `_CHECKPOINT_METADATA`, None if unreadable."""
    problems: list[Problem] = []

    def report(path: str, message: str) -> None:
        problems.append(Problem(check="commit", path=path, message=message))

    if metadata is not None and not metadata.get("commit_timestamp_nsecs"):
        report(STEP_METADATA, "says no commit time: the save never finished, so the checkpoint cannot be relied on")
    elif metadata is not None and commit_time(metadata) is None:
        said = json.dumps(metadata["commit_timestamp_nsecs"])
        report(STEP_METADATA, f"is damaged: its commit time {said:.60} is none (nanoseconds since 1970)")
    own_markers = [] if V1_MARKER in files else [item.prefix for item in items]
    places = list(dict.fromkeys(["", *own_markers]))
    missing = [place + COMMIT_MARKER for place in places if place + COMMIT_MARKER not in files]
    # A local checkpoint without any marker was written by an Orbax before 0.12; its name and commit time vouch for it.
    if missing and ("://" in str(folder) or len(missing) < len(places)):
        for path in missing:
            report(path, "is missing: the save never finished, or the file was deleted after it")
    problems.extend(_check_markers(folder, [place for place in places if place + COMMIT_MARKER in files]))
    for name in sorted({part for path in files for part in path.split("/")[:-1] if TMP_MARK in part}):
        report(
            name, "is the folder of an unfinished save inside a finished step: an item is missing from the checkpoint"
        )
    return problems


def _check_markers(folder: epath.Path, places: Sequence[str]) -> list[Problem]:
    """Whether the markers were written for the step that the folder's name says, and all for the same save: each holds
    the path that was committed."""
    problems: list[Problem] = []
    committed: PurePosixPath | None = None  # where the step was saved, by its own marker
    for place in places:
        path = place + COMMIT_MARKER
        try:
            _, found, written = read_small(folder / path).partition("successful to ")
        except DamagedFile as damage:
            problems.append(Problem(check="commit", path=path, message=str(damage)))
            continue
        if not found:
            message = "does not say what was committed: it is damaged"
            problems.append(Problem(check="commit", path=path, message=message))
            continue
        step = _saved_at(written, is_item=bool(place))
        if place and committed is not None:
            if step != committed:
                message = f"was written for {step}, not for {committed}: put that checkpoint's own {place} back"
                problems.append(Problem(check="commit", path=path, message=message))
            continue
        here, there = step_number(folder.name), step_number(step.name)
        if here is not None and there is not None and here != there:
            message = (
                f"was written for step {there}, but the folder is named {folder.name}: this is step {there} under "
                f"another name; rename the folder back to {step.name}"
            )
            problems.append(Problem(check="commit", path=path, message=message))
        committed = step
    return problems


def _saved_at(written: str, *, is_item: bool) -> PurePosixPath:
    """The step's folder by its final name, from the path that a marker says was committed."""
    path = PurePosixPath(written.strip())
    step = path.parent if is_item else path
    return step.with_name(step.name.split(TMP_MARK)[0] or step.name) if step.name else step
