"""Notes the states of a trainer's step: of a run that saves, and of one that is started again where it saved."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from configs.trainers import find_kind
from tasks.experiments.observe_arm import make_run_folder
from tasks.ingest.log_causes import with_cause, with_frame
from tasks.ingest.run_record import read_run_log
from tasks.launch.backend import LaunchError
from tasks.launch.local.process_group import run_to_end
from tasks.launch.local.program_copy import copy_program
from tasks.observe.recorder import prepare_recorder
from tasks.records.observation import LOG
from tasks.records.plan import WORK, RunPlan
from tasks.records.restored import NotedState, Restored, merge_notes
from tasks.records.run import START_FOLDER
from tasks.records.text import counted
from tasks.verify.compare_restored import compare_restored, find_saved
from tasks.verify.layout import TMP_MARK

FIRST, EVERY = "first", "every"  # the recorder's `states`
READ, PROBLEM = "files-read.json", "states-problem.json"
STEPS = 20  # calls of the step after which a run that saves is ended
# files that no trainer restores from, by the end of their names
TEXTS = (".log", ".json", ".jsonl", ".csv", ".txt", ".yml", ".yaml", ".md", ".py", ".pyc", ".toml", ".html", ".png")
SAVED = (".json",)  # but inside a folder with other files that were written, they belong to a checkpoint


class WitnessedRun(NamedTuple):
    """The states of one run, in the order of its calls, and the run's folder."""

    states: tuple[NotedState, ...]
    read: tuple[str, ...]  # files that it had opened before its first step
    plan: RunPlan  # in its own folder
    written: tuple[Path, ...] = ()  # files that it made, below the folder
    problem: str = ""


def witness_saving(plan: RunPlan, folder: Path, *, steps: int | None = None) -> WitnessedRun:
    """Return the states before each call of a run's step, and the files that the run wrote.

    Deletes `folder`. steps: calls after which the run is ended; None: by its command.
    """
    return _witness(plan, folder, EVERY, steps=steps)


def witness_start(plan: RunPlan, folder: Path, run: Path | None = None) -> WitnessedRun:
    """Return the first state of a run that starts with the files of the folder of another run, or with none.

    Deletes `folder`, and leaves `run` as it is.
    """
    files = tuple(path for path in run.rglob("*") if path.is_file()) if run is not None else ()
    kept = tuple(path for path in files if not {START_FOLDER, "__pycache__"} & set(path.relative_to(run or path).parts))
    before = WitnessedRun((), (), plan.replace(directory=str(run)), kept) if run is not None else None
    return _witness(plan, folder, FIRST, saved=before, extra=plan.files.resume if run is not None else ())


def witness_restoring(plan: RunPlan, folder: Path, saved: WitnessedRun) -> WitnessedRun:
    """Return the first state of a run that starts where the run `saved` wrote its files. Deletes `folder`."""
    return _witness(plan, folder, FIRST, saved=saved, extra=plan.files.resume)


def _witness(
    plan: RunPlan,
    folder: Path,
    states: str,
    *,
    steps: int | None = None,
    saved: WitnessedRun | None = None,
    extra: Sequence[str] = (),
) -> WitnessedRun:
    changed = (plan.version.different or ()) if plan.version is not None else ()
    if folder.exists():
        shutil.rmtree(folder)
    folder = folder.absolute()
    moved = make_run_folder(plan, folder)
    copy_program(moved)
    if saved is not None:
        _put_saved(saved, moved)
    before = _list_files(Path(moved.directory))
    own = prepare_recorder(
        folder, moved.environment, states=states, end_after=steps, root=moved.source or "", changed=list(changed)
    )
    started = moved.replace(environment={**moved.environment, **own}, argv=(*moved.argv, *extra))
    try:
        run_to_end(started, folder / LOG)
    except (LaunchError, OSError) as error:
        return WitnessedRun((), (), moved, problem=f"{plan.arm} cannot be started: {error}")
    after = _list_files(Path(moved.directory))
    written = tuple(sorted(path for path, facts in after.items() if before.get(path) != facts))
    found = _read_states(folder)
    problem = "" if found else _explain(folder, moved, started=saved is not None)
    read = folder / READ
    return WitnessedRun(found, tuple(json.loads(read.read_text())) if read.exists() else (), moved, written, problem)


def _put_saved(saved: WitnessedRun, moved: RunPlan) -> None:
    """Copy what a run has written into the folder of another run: of trainers that are known, the checkpoints only."""
    source, target = Path(saved.plan.directory), Path(moved.directory)
    is_any = find_kind(moved.trainer).takes_command
    for path in saved.written:
        inside = path.relative_to(source)
        if not is_any and inside.parts[0] != saved.plan.files.checkpoints:
            continue
        if inside.name == "config.yml" and len(inside.parts) == 1:
            continue
        place = target / inside
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)


def _list_files(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the size and the time of each file below a folder, without bytecode."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def _read_states(folder: Path) -> tuple[NotedState, ...]:
    """Return the states of the calls, each put together from the notes of all processes."""
    calls: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("state-*.json")):
        calls.setdefault(file.name.split("-")[1], []).append(file)
    return tuple(merge_notes([json.loads(one.read_text(encoding="utf-8")) for one in calls[key]]) for key in calls)


def _explain(folder: Path, plan: RunPlan, *, started: bool) -> str:
    """Return why a run has no state."""
    log = folder / LOG
    reading = with_frame(with_cause(read_run_log(log), log, supervised=True), log, plan.source)
    if reading.has_died and reading.error is not None:
        error = reading.error
        place = f" at {error.place}" if error.place else ""
        return f"{error.type}: {error.message.splitlines()[0] if error.message else ''}{place}"
    if started:
        return "started again, it trains no step; write {steps} where its command says how many"
    note = folder / PROBLEM
    return str(json.loads(note.read_text(encoding="utf-8"))) if note.exists() else "no training step was found"


def saves_nothing(run: WitnessedRun) -> bool:
    """Return whether a run wrote no file that a program could restore from."""
    root = Path(run.plan.directory)
    inside = [path.relative_to(root) for path in run.written]
    return not any(not path.name.endswith(TEXTS) or (path.parts[0] == run.plan.files.checkpoints) for path in inside)


def compare_again(saved: WitnessedRun, again: WitnessedRun, *, fresh: NotedState | None = None) -> Restored:
    """Return what a run that was started again restored of the states of the run that saved.

    fresh: the first state of a run of the restoring program without a checkpoint; by default that of the saving one.
    """
    title = f"written by {saved.plan.arm}"
    if saved.problem:
        return Restored(source=title, problem=f"{saved.plan.arm} cannot be recorded: {saved.problem}")
    if saves_nothing(saved):
        calls = counted(len(saved.states) - 1, "step")
        return Restored(source=title, problem=f"{saved.plan.arm} wrote no file to restore from in {calls}")
    if again.problem:
        return Restored(source=title, problem=again.problem)
    first, (restored, *_) = fresh or saved.states[0], again.states
    chosen = find_saved(saved.states, restored)
    updates = counted(chosen.call, "update")
    chosen = chosen.replace(title=f"the state after {updates}, {title}")
    found = compare_restored(chosen, restored, fresh=first, others=saved.states, read=again.read)
    unfinished = [path for path in again.read if TMP_MARK in path]
    if unfinished:
        note = f"it read a save that was not finished: {_shorten(unfinished[0], again)}"
        return found.replace(notes=(*found.notes, note), reads_unfinished=True)
    return found


def _shorten(path: str, run: WitnessedRun) -> str:
    """Return a file's path below the run's own folder, or below its copy of the program."""
    for root in (f"{run.plan.directory}/{WORK}/", f"{run.plan.directory}/"):
        if path.startswith(root):
            return path.removeprefix(root)
    return path
