"""Finds the runs of experiment trackers in a place that the user names: a folder, a file, or PLACE:RUN."""

import math
import os.path
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from tasks.ingest.trackers import databases, plain_files, tensorboard, wandb_files
from tasks.ingest.trackers.tracked_run import TrackedRun
from tasks.scrape.dialects.metric_names import OTHER_CLOCKS, column_of, evaluation_key
from tasks.scrape.window import LogFormatError

FLOAT32 = 1e-6  # relative difference of one number in two trackers: TensorBoard stores float32
FEW = 6  # number of names that a message lists
TITLES = {"learning_rate": "learning rate", "seconds": "step time"}
DIVIDER = ":"


class Tracker(NamedTuple):
    """One tracker's reader."""

    list_files: Callable[[Path], list[Path]]
    read_runs: Callable[[Path], list[TrackedRun]]


JSON = Tracker(plain_files.list_json, plain_files.read_json)  # a named file of this kind is read as a log
TRACKERS = {
    "W&B": Tracker(wandb_files.list_files, wandb_files.read_runs),
    "database": Tracker(databases.list_files, databases.read_runs),
    "mlruns": Tracker(plain_files.list_mlruns, plain_files.read_mlruns),
    "TensorBoard": Tracker(tensorboard.list_files, tensorboard.read_runs),
    "trainer state": Tracker(plain_files.list_states, plain_files.read_states),
    "CSV": Tracker(plain_files.list_tables, plain_files.read_tables),
    "JSON lines": JSON,
}


def is_tracker(word: str) -> bool:
    """Whether a file is a tracker's."""
    others = (tracker for tracker in TRACKERS.values() if tracker is not JSON)
    return os.path.isfile(word) and any(tracker.list_files(Path(word)) for tracker in others)


def split_place(word: str) -> tuple[str, str | None]:
    """Return (place, name of a run or None) of an argument: `mlflow.db:tuned`."""
    place, divider, name = word.rpartition(DIVIDER)
    return (place, name) if divider and not os.path.exists(word) and os.path.exists(place) else (word, None)


def find_tracked(word: str) -> list[TrackedRun]:
    """Return the runs that trackers keep in a place; empty if there is none.

    Runs of several trackers are one, if they agree in every number that both have. Raises LogFormatError if they
    disagree, or if the named run does not exist.
    """
    place, name = split_place(word)
    if not os.path.exists(place):
        return []
    found = {
        key: tracker.read_runs(Path(place)) for key, tracker in TRACKERS.items() if tracker.list_files(Path(place))
    }
    runs = _choose(list(found.values()), place)
    runs = [run for run in runs if run.rows]
    if found and not runs:
        trackers = ", ".join(dict.fromkeys(run.tracker for side in found.values() for run in side))
        what = trackers or "tracker"
        raise LogFormatError(
            f"{place}: its {what} files hold no number of a step; give the folder of a run that trained"
        )
    if name is None:
        return runs
    chosen = [run for run in runs if name in (run.name, run.key)]
    if not chosen:
        names = ", ".join(dict.fromkeys(run.name for run in runs))
        raise LogFormatError(f"{place}: has no run {name!r}; its runs: {names}: maxview ingest {place}:NAME …")
    return chosen


def _choose(found: Sequence[list[TrackedRun]], place: str) -> list[TrackedRun]:
    """Return the runs of the first tracker if several agree. Raises LogFormatError."""
    filled = [runs for runs in found if any(run.rows for run in runs)]
    if len(filled) < 2:
        return filled[0] if filled else []
    if any(len(runs) != 1 for runs in filled):
        where = ", ".join(f"{runs[0].tracker} in {runs[0].place}" for runs in filled)
        raise LogFormatError(f"{place}: holds several runs of several trackers ({where}); give the folder of one")
    for (one,), (other,) in combinations(filled, 2):
        _check_agreement(one, other, place)
    return max(filled, key=lambda runs: sum(map(len, runs[0].rows.values())))


def _check_agreement(one: TrackedRun, other: TrackedRun, place: str) -> None:
    for step in sorted(one.rows.keys() & other.rows.keys()):
        mine, others = (_by_column(run.rows[step]) for run in (one, other))
        for name in mine.keys() & others.keys():
            if not math.isclose(mine[name], others[name], rel_tol=FLOAT32) and not math.isnan(
                mine[name] + others[name]
            ):
                raise LogFormatError(
                    f"{place}: its trackers disagree: {name} of step {step} is {mine[name]:.6g} in {one.tracker} and "
                    f"{others[name]:.6g} in {other.tracker}; give one of them: maxview ingest {one.place} …"
                )


def _by_column(row: dict[str, float]) -> dict[str, float]:
    """Return the losses and norms of a step; times are measured anew by each tracker."""
    return {name: value for tag, value in row.items() if (name := column_of(tag)) in ("loss", "grad_norm")}


def describe(runs: Sequence[TrackedRun]) -> str:
    """Return a sentence about the runs that were read: trackers, files, steps, metrics, and names left aside."""
    tags = list(dict.fromkeys(tag for run in runs for tag in run.tags))
    known = list(dict.fromkeys(TITLES.get(name, name) for tag in tags if (name := column_of(tag))))
    evaluated = sum(evaluation_key(tag) == "loss" for tag in tags)
    other = [tag for tag in tags if not column_of(tag) and not evaluation_key(tag) and tag not in OTHER_CLOCKS]
    if "step time" not in known and all(run.has_wall_times for run in runs):
        known.append("step time from wall times")
    known += ["evaluations"] if evaluated else []
    steps = sum(len(run.rows) for run in runs)
    files = sum({run.place: run.files for run in runs}.values())
    what = f"{files} {runs[0].tracker} {'file' if files == 1 else 'files'}"
    many = f" ({len(runs)} runs)" if len(runs) > 1 else ""
    text = f"read {what}{many}: {steps} steps of {', '.join(known) or 'no metric that maxview knows'}"
    rest = f" and {len(other) - FEW} more" if len(other) > FEW else ""
    return text + (f"; under their own names: {', '.join(other[:FEW])}{rest}" if other else "")
