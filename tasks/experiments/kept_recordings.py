"""Uses a recorded step again, also for another page, only while everything that it was made from is as it was.

A recording's note lists what its trainer was given, and each file and folder that its process read, with inode, size
and times. One difference, or one thing that the notes cannot follow, and the trainer is started again.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from configs.frozen import Frozen
from configs.installed import digest_files
from maxview_probe.inject import INJECTED
from maxview_probe.observe.observation_files import ARGUMENTS, CYCLE, OBSERVATION, PROGRAM
from maxview_probe.observe.read_files import stamp
from tasks.experiments.observe_arm import observe_arm
from tasks.launch.local.process_group import build_environment, move_plan
from tasks.observe.recorder import read_observation
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan
from tasks.resolve.stand_ins import is_on_cpu
from tasks.store.atomic import StoreError, write_atomically
from tasks.store.documents import model_from_json, read_document
from tasks.store.json_records import model_to_json

NOTE = "made-from.json"  # in a recording's folder, written last
PLAN = "plan.json"  # the recorded plan
PROBE = INJECTED.parent  # the recorder's own code
NOTES = "read-*.json"
TIMES = "front_end"  # of trace and lowering, in a record
ANYWHERE = Path("/runs")  # in place of the folder of a recording's runs
MOST = 40  # pages of a case in which a recording is looked for, the newest first
CPU_INFO = Path("/proc/cpuinfo")
_MADE: set[tuple[str, str]] = set()  # folder and digest of the recordings that this process made


type Stamp = tuple[int | str, ...] | None


class MadeFrom(Frozen):
    """What a recording was made from."""

    given: str  # digest of what its trainer was given
    timed: bool  # whether it has times of trace and lowering, of its own page
    read: dict[str, tuple[int | str, ...] | None]  # path → its stamp (see `read_files.stamp`)
    contents: dict[str, str] = {}  # file → digest of its content
    unseen: tuple[str, ...] = ()  # what its process did that no note can follow


def observe_or_keep(
    plan: RunPlan, folder: Path, *, shared: bool = True, timed: bool = False, **settings: Any
) -> Observation:
    """Return the observation of a plan's step: the recorded one in `folder` or of another page, else a new one.

    shared: look on other pages, too. timed: with times of trace and lowering, which only a recording that was made for
    this page has: those of another hour are no measure. settings: of `observe_arm`.
    """
    given = digest_given(plan, settings)
    note = read_note(folder) if timed else None
    if is_current(folder, given, own=True) and (not timed or (note is not None and note.timed)):
        return read_observation(folder, plan.arm)
    if shared and not timed and _bring(plan, folder, given):
        return read_observation(folder, plan.arm)
    found = observe_arm(plan, folder, timed=timed, **settings)
    if found.step is not None:
        write_atomically(folder / PLAN, model_to_json(plan))
        write_atomically(folder / NOTE, model_to_json(_note(folder, given, timed=timed)))
        _MADE.add((str(folder), given))
    return found


def digest_given(plan: RunPlan, settings: Mapping[str, Any]) -> str:
    """Return a digest of what a plan's process is given: files, config, variables, recorder, machine."""
    moved = move_plan(plan, ANYWHERE)
    facts = {
        "identity": plan.identity, "step": plan.step, "argv": moved.argv, "checkout": plan.checkout,
        "start folder": plan.start_folder, "config": moved.config, "environment": build_environment(moved, os.environ),
        "settings": settings, "recorder": digest_files(PROBE, PROBE.rglob("*.py")), "machine": describe_machine(),
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def describe_machine() -> list[Any]:
    """Return what of this machine can change a program or its results."""
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    cpu = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [platform.node(), platform.release(), platform.machine(), cpu, cores]


def is_current(folder: Path, given: str, *, own: bool = False) -> bool:
    """Return whether a folder has a recording that was made from this, and all that it read is as it was.

    What no note can follow counts as changed. own: unless this process made the recording, for the same page. Then
    a file that was missing may have been written by the recorded program, as caches are.
    """
    note, made = read_note(folder), own and (str(folder), given) in _MADE
    if note is None or note.given != given or (note.unseen and not made):
        return False
    read = ((path, was) for path, was in note.read.items() if was is not None or not made)
    return all(_is_as_it_was(path, was, note.contents.get(path, "")) for path, was in read)


def read_note(folder: Path) -> MadeFrom | None:
    """Return what a recording was made from; None without a note that can be read."""
    try:
        return read_document(folder / NOTE, model_from_json(MadeFrom))
    except StoreError:
        return None


def _is_as_it_was(path: str, was: Stamp, content: str) -> bool:
    """Return whether a path has its stamp, or one that only tells of a new link or of other rights, and its content."""
    now = stamp(path)
    if was is None or now is None or now == list(was):
        return now == (None if was is None else list(was))
    return len(now) == len(was) == 4 and now[:3] == list(was)[:3] and content == _digest_content(path, tuple(now))


@lru_cache(maxsize=8192)  # by the stamp: the arms read the same packages
def _digest_content(path: str, _stamp: Stamp) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "cannot be read"


def _note(folder: Path, given: str, *, timed: bool) -> MadeFrom:
    """Return what a new recording was made from."""
    read: dict[str, Stamp] = {}
    unseen: dict[str, None] = {}
    found = sorted(folder.glob(NOTES))
    for path in found:
        noted = json.loads(path.read_text(encoding="utf-8"))
        unseen |= dict.fromkeys(noted["unseen"])
        for name, was in noted["read"].items():
            then = None if was is None else tuple(was)
            if name in read and read[name] != then:
                unseen[f"reads {name} while it changes"] = None
            read[name] = then
        path.unlink()
    if not found:
        unseen["leaves no notes"] = None
    files = {path: was for path, was in read.items() if was is not None and len(was) > 1}
    changed = [path for path, was in files.items() if stamp(path) != list(was)]
    unseen |= dict.fromkeys(f"reads {path} while it changes" for path in changed)
    contents = {path: _digest_content(path, was) for path, was in files.items()}
    return MadeFrom(given=given, timed=timed, read=read, contents=contents, unseen=tuple(unseen))


def _bring(plan: RunPlan, folder: Path, given: str) -> bool:
    """Copy the recording of another page of the same case into `folder`; return whether one could be used.

    Only of plans whose source is no copy in the recording's own folder, and on processors: what a driver is, no note
    tells.
    """
    if plan.files.copy_at is not None or not is_on_cpu(plan):
        return False
    for source in _list_others(folder):
        if not is_current(source, given):
            continue
        before = stamp(str(source / NOTE))
        with suppress(OSError, ValueError, shutil.Error):
            if folder.exists():
                shutil.rmtree(folder)
            shutil.copytree(source, folder, ignore=shutil.ignore_patterns(NOTE, PLAN), symlinks=True)
            note = read_note(source)
            is_whole = before is not None and stamp(str(source / NOTE)) == before  # else a command has just replaced it
            if note is not None and is_whole:
                record = json.loads((folder / OBSERVATION).read_text(encoding="utf-8"))
                write_atomically(folder / OBSERVATION, json.dumps(_without_times(record)))
                write_atomically(folder / PLAN, model_to_json(plan))
                write_atomically(folder / NOTE, model_to_json(note.replace(timed=False)))
                return True
    return False


def _without_times(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != TIMES}


def _list_others(folder: Path) -> Iterator[Path]:
    """Yield the folders of the same recording of a case's other pages, the newest first.

    A page's recordings lie below its folder: `PAGE/experiments/baseline`, `PAGE/explained/baseline`.
    """
    for kind in ("experiments", "explained"):
        own = next((parent for parent in folder.parents if parent.name == kind), None)
        if own is None:
            continue
        found = own.parent.parent.glob(f"*/{folder.relative_to(own.parent)}/{NOTE}")
        notes = sorted(found, key=lambda path: -path.stat().st_mtime_ns)
        yield from (path.parent for path in notes[:MOST] if path.parent != folder)


def digest_recording(folder: Path) -> str:
    """Return a digest of a recorded step: its program, arguments, batches and record without times."""
    own = [folder / name for name in (PROGRAM, ARGUMENTS)]
    paths = [*(path for path in own if path.exists()), *folder.glob("batch-*.npz"), *(folder / CYCLE).glob("*")]
    record = json.loads((folder / OBSERVATION).read_text(encoding="utf-8"))
    facts = [digest_files(folder, paths), _without_times(record)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
