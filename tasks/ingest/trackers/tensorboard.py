"""TensorBoard: folders of event files."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tasks.ingest.trackers.tracked_run import TrackedRun
from tasks.scrape.dialects.metric_names import evaluation_key
from tasks.scrape.event_files import EVENT_FILES, read_scalars
from tasks.scrape.window import LogFormatError

PARTS = ("train", "training", "eval", "evaluation", "validation", "val", "valid", "test")  # subfolders of one run


def list_files(place: Path) -> list[Path]:
    """Return the event files of a place."""
    return sorted(place.rglob(EVENT_FILES)) if place.is_dir() else [place] * place.match(EVENT_FILES)


def read_runs(place: Path) -> list[TrackedRun]:
    """Return a run per folder with event files; folders such as `train` and `eval` belong to the one above them.

    A later file replaces the steps that it repeats. Raises LogFormatError for a damaged file.
    """
    files = list_files(place)
    return [_read_run(folder, list(group)) for folder, group in groupby(sorted(files, key=_run_of), key=_run_of)]


def _run_of(path: Path) -> Path:
    return path.parent.parent if path.parent.name.lower() in PARTS else path.parent


def _read_run(folder: Path, files: Sequence[Path]) -> TrackedRun:
    run = TrackedRun(folder.resolve().name, "TensorBoard", len(files), folder)
    for path in sorted(files, key=lambda path: path.name):  # the name contains the start time
        part = "" if path.parent == folder else f"{path.parent.name}/"
        try:
            for tag, step, value, wall_s in read_scalars(path):
                run.add(
                    step, tag if tag.startswith(part) or evaluation_key(tag) else part + tag, _shortest(value), wall_s
                )
        except (DecodeError, ValueError) as error:
            raise LogFormatError(f"{path}: is a damaged TensorBoard file: {error}; copy it again") from error
    return run


def _shortest(value: float) -> float:
    """Return the shortest decimal number that is the same float32, as most writers store; other numbers unchanged."""
    single = np.float32(value)
    return float(str(single)) if float(single) == value else value
