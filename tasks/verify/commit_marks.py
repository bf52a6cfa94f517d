"""Checks the three marks that Orbax leaves when it completes a save.

First, `_CHECKPOINT_METADATA` gets a commit time. Then, on a local disk, the folder is renamed from
`9.orbax-checkpoint-tmp` to `9`; on gs:// it has its final name from the start. Last, `commit_success.txt` is written,
on gs:// by every version of Orbax and on local disks since 0.12.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from etils import epath

from tasks.records.checkpoint_proof import Problem
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

_END_NS = 1 << 63  # Orbax stores times as signed 64-bit integers


def commit_time(metadata: Mapping[str, Any]) -> int | None:
    """Return the commit time of the save in ns since 1970; None if it is missing or invalid."""
    time_ns = metadata.get("commit_timestamp_nsecs")
    return time_ns if _is_time(time_ns) else None


def show_time(time_ns: Any) -> str | None:
    """Return an Orbax time (ns) as ISO 8601; None for an invalid one."""
    if not _is_time(time_ns):
        return None
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def _is_time(time_ns: Any) -> bool:
    return type(time_ns) is int and 0 < time_ns < _END_NS


def check_unfinished(folder: epath.Path, files: Mapping[str, int]) -> Problem | None:
    """Return the problem of a step that is an unfinished save or an empty folder; None if the step can be checked."""
    if TMP_MARK in folder.name:
        message = (
            "is an unfinished save: the run is still writing it, or was killed while it did; nothing can be restored "
            f"from it as it stands, and earlier checkpoints, if there are any, lie beside it in {folder.parent}"
        )
    elif not files:
        message = (
            "the step's folder is empty, though Orbax still lists the step: its files were deleted; delete the folder"
        )
    else:
        return None
    return Problem(check="commit", path=".", message=message)


def check_commit(
    folder: epath.Path, files: Mapping[str, int], items: Sequence[Item], metadata: Mapping[str, Any] | None
) -> list[Problem]:
    """Return the problems of a step's commit marks and of unfinished items in it. metadata: None if unreadable."""
    problems: list[Problem] = []

    def report(path: str, message: str) -> None:
        problems.append(Problem(check="commit", path=path, message=message))

    if metadata is not None and not metadata.get("commit_timestamp_nsecs"):
        report(STEP_METADATA, "has no commit time: the save never finished, so the checkpoint cannot be relied on")
    elif metadata is not None and commit_time(metadata) is None:
        said = json.dumps(metadata["commit_timestamp_nsecs"])
        report(STEP_METADATA, f"is damaged: its commit time {said:.60} is invalid (nanoseconds since 1970)")
    own_markers = [] if V1_MARKER in files else [item.prefix for item in items]
    places = list(dict.fromkeys(["", *own_markers]))
    missing = [place + COMMIT_MARKER for place in places if place + COMMIT_MARKER not in files]
    # Orbax before 0.12 wrote no markers on local disks: there, either all of them are missing or none is.
    if missing and ("://" in str(folder) or len(missing) < len(places)):
        for path in missing:
            report(path, "is missing: the save never finished, or the file was deleted after it")
    _check_markers(folder, [place for place in places if place + COMMIT_MARKER in files], report)
    for name in sorted({part for path in files for part in path.split("/")[:-1] if TMP_MARK in part}):
        report(
            name, "is the folder of an unfinished save inside a finished step: an item is missing from the checkpoint"
        )
    return problems


def _check_markers(folder: epath.Path, places: Sequence[str], report: Callable[[str, str], None]) -> None:
    """Report damaged markers, and markers whose step differs from the folder's or from the first sound marker's.

    A marker is a file with the path that was committed. places: prefixes of the step and of its items."""
    committed: PurePosixPath | None = None  # the step's folder according to the first sound marker
    for place in places:
        path = place + COMMIT_MARKER
        try:
            _, mark, written = read_small(folder / path).partition("successful to ")
        except DamagedFile as damage:
            report(path, str(damage))
            continue
        if not mark:
            report(path, "is damaged: it names no committed path")
            continue
        step = _saved_at(written, is_item=bool(place))
        if place and committed is not None:
            if step != committed:
                report(path, f"was written for {step}, not for {committed}: put that checkpoint's own {place} back")
            continue
        here, there = step_number(folder.name), step_number(step.name)
        if here is not None and there is not None and here != there:
            report(
                path,
                f"was written for step {there}, but the folder is named {folder.name}: this is step {there} under "
                f"another name; rename the folder back to {step.name}",
            )
        committed = step


def _saved_at(written: str, *, is_item: bool) -> PurePosixPath:
    """Return the final path of the step's folder, from the path in a marker of the step or of an item."""
    path = PurePosixPath(written.strip())
    step = path.parent if is_item else path
    return step.with_name(step.name.split(TMP_MARK)[0] or step.name) if step.name else step
