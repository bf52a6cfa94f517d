"""Turns the marks that Orbax leaves when a save is complete into problems, or into a wait for them.

Where a save is complete shows in three places. On a local disk the folder has its final name only after the save
(`9.orbax-checkpoint-tmp` before); on gs:// it has it from the beginning. `_CHECKPOINT_METADATA` gets its commit time
just before that. `commit_success.txt` is written last: on gs:// by every version, on local disks since Orbax 0.12 only.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from etils import epath

from tasks.records import Problem
from tasks.verify.layout import (
    COMMIT_MARKER,
    STEP_METADATA,
    TMP_MARK,
    DamagedFile,
    Item,
    open_path,
    read_json,
    step_number,
)


def is_committed(path: str | os.PathLike[str]) -> bool:
    """Whether the save of the step at `path` is complete, by the cheapest sure sign. False while it does not exist."""
    folder = open_path(path)
    if TMP_MARK in folder.name or ("://" in str(folder) and not (folder / COMMIT_MARKER).exists()):
        return False
    try:
        return bool(read_json(folder / STEP_METADATA).get("commit_timestamp_nsecs"))
    except DamagedFile:
        return False


def wait_for_commit(path: str | os.PathLike[str], timeout_s: float, poll_s: float = 0.1) -> bool:
    """Waits until the save of the step at `path` is complete: True, or False after `timeout_s` seconds.

    Asks only for the final name, so it never opens a file that is still being written.
    """
    deadline = time.monotonic() + timeout_s
    while not is_committed(path):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(poll_s, left))
    return True


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
    places = list(dict.fromkeys(["", *(item.prefix for item in items)]))
    missing = [place + COMMIT_MARKER for place in places if place + COMMIT_MARKER not in files]
    # A local checkpoint without any marker was written by an Orbax before 0.12; its name and commit time vouch for it.
    if missing and ("://" in str(folder) or len(missing) < len(places)):
        for path in missing:
            report(path, "is missing: the save never finished, or the file was deleted after it")
    if COMMIT_MARKER in files:
        problems.extend(_check_marker(folder))
    for name in sorted({part for path in files for part in path.split("/")[:-1] if TMP_MARK in part}):
        report(
            name, "is the folder of an unfinished save inside a finished step: an item is missing from the checkpoint"
        )
    return problems


def _check_marker(folder: epath.Path) -> list[Problem]:
    """Whether the marker was written for the step that the folder's name says: it holds the path that was committed."""
    try:
        text = (folder / COMMIT_MARKER).read_text()
    except (OSError, UnicodeDecodeError) as error:
        return [Problem(check="commit", path=COMMIT_MARKER, message=f"cannot be read: {error}")]
    _, found, written = text.partition("successful to ")
    if not found:
        return [Problem(check="commit", path=COMMIT_MARKER, message="does not say what was committed: it is damaged")]
    name = PurePosixPath(written.strip()).name
    here, there = step_number(folder.name), step_number(name)
    if here is not None and there is not None and here != there:
        message = (
            f"was written for step {there}, but the folder is named {folder.name}: this is step {there} under another "
            f"name; rename the folder back to {name}"
        )
        return [Problem(check="commit", path=COMMIT_MARKER, message=message)]
    return []
