"""Compiles each commit's training step without training, and weighs commits by the changes of source and program.

The stored results are the compile ledger. The culprit is the commit that changed the bisected metric.
"""

import gzip
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from configs.comparison import Target
from configs.trainers import find_kind
from questions.bisect.bisected_metric import PROGRAM, TIMES, BisectedMetric
from questions.bisect.terms import Finish, Line
from tasks.launch.local.process_group import build_environment, confine_words
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.result_metrics import CHECKPOINTS, END
from tasks.metrics.time_metrics import PROGRAM_TIME
from tasks.programs.program_work import analyse_program, locate
from tasks.records.bisection import BisectedPoint, LedgerEntry
from tasks.records.compiled import FILE, OPTIMISED, CompiledProgram
from tasks.records.plan import RunPlan
from tasks.resolve.trainers.maxtext_trainer import COMPILE_RECORDER
from tasks.store.directories import config_text
from tasks.store.documents import model_from_json, read_document
from tasks.store.store import Store

FOLDER = "bisect"  # folder in the store
TIMEOUT_S = 1800.0  # limit of seconds of one compile
TAIL_LINES = 3  # number of stderr's last lines in the error of a compile that left no report
# Error type of model/compile_record.py: the trainer ended without an ahead-of-time compile. The entry stays empty.
NOTHING_COMPILED = "NothingCompiled"
# Prior weight of a commit whose program equals the previous commit's, by kind of metric (a changed program has 1):
TIME_PRIOR = 0.02  # step times: only a change of the host loop can matter
LOSS_PRIOR = 0.2  # losses: only a change of data or random numbers can matter
PREFIXES = ("", "k", "M", "G", "T", "P")
MORE_MEMORY = 1.001  # a point is bad if its memory exceeds good's memory times this factor (the memory row's tolerance)


def ledger_key(source: str, plan: RunPlan) -> str:
    """Return the key of a ledger entry: a hash of the commit's source and of everything else that decides the program.

    source: digest of the commit's source. plan: the plan of the good commit, also for other commits; its software,
    config and environment are hashed.
    """
    config = {k: v for k, v in plan.config.items() if k not in ("run_name", "base_output_directory", "metrics_file")}
    versions = {k: v for k, v in plan.versions.items() if k != "trainer source"}
    facts = [source, plan.trainer, plan.target, plan.compiles_for, config, versions, plan.environment, plan.software]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def read_entry(store: Store, key: str) -> LedgerEntry | None:
    """Return the stored entry; None if there is none for this key."""
    name = f"{FOLDER}/ledger/{key}.json"
    return LedgerEntry.model_validate_json(store.files.read(name)) if store.files.stat(name) else None


def make_entry(plan: RunPlan, target: Target, store: Store, key: str) -> LedgerEntry:
    """Lower and compile a plan's training step on this machine; write its entry to the store and return it.

    If the compile fails, the entry has the error. If the step cannot be compiled without training, the entry is empty.
    `model/compile_record.py` does not recompile a lowered program that equals an earlier one.
    """
    folder = store.path / FOLDER / "programs" / key
    programs = store.path / FOLDER / "compiled"
    for place in (folder, programs):  # the commit's code runs confined, and can write only to folders that exist
        place.mkdir(parents=True, exist_ok=True)
    entry = _compile(plan, target, folder, programs)
    store.files.write(f"{FOLDER}/ledger/{key}.json", entry.model_dump_json().encode())
    return entry


def _compile(plan: RunPlan, target: Target, folder: Path, programs: Path) -> LedgerEntry:
    argv = compile_argv(plan, target, folder, programs)
    if argv is None:
        return LedgerEntry()
    place = {"run_name": folder.name, "base_output_directory": str(folder.parent)}
    moved = plan.replace(config=plan.config | place)
    (folder / "config.yml").write_text(config_text(moved), encoding="utf-8")
    environment = build_environment(plan, os.environ)
    if plan.checkout:  # the recorder is started by its path, so Python does not import from cwd
        environment["PYTHONPATH"] = plan.checkout
    try:
        done = subprocess.run(
            [*confine_words(plan, environment, (folder, programs)), *argv], cwd=plan.checkout or plan.start_folder,
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return LedgerEntry(error=f"its compile took longer than {TIMEOUT_S:g} s")
    program = read_document(folder / FILE, model_from_json(CompiledProgram))
    if program is None or not program.ok or program.fingerprints is None:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-TAIL_LINES:]
        stated = program.error if program is not None else None
        if stated and stated.type == NOTHING_COMPILED:
            return LedgerEntry()
        words = f"{stated.type}: {stated.message.strip().splitlines()[0]}" if stated else " ".join(said)
        return LedgerEntry(error=words[:500] or f"its compile ended with exit code {done.returncode}")
    with gzip.open(folder / OPTIMISED, "rt", encoding="utf-8", newline="\n") as lines:
        found = analyse_program(lines)
    again = [unit for unit in found.units if locate(unit.instruction.op_name)[0] == "recomputed"]
    return LedgerEntry(
        program=program.fingerprints.lowered,
        memory_bytes=program.memory.total if program.memory else None,
        collective_bytes=found.work.work.collective_bytes,
        recomputed_flops=sum(unit.work.flops for unit in again),
        flops=found.work.work.flops,
    )


def compile_argv(plan: RunPlan, target: Target, folder: Path, programs: Path) -> tuple[str, ...] | None:
    """Return the command that compiles a plan's step without training; None for a custom command or one without `-m`.

    A plan that compiles ahead of time keeps its command, and only its output folder is replaced by `folder`. Otherwise
    `model/compile_record.py` starts the trainer and ends it once the step is compiled. programs: the recorder's compile
    cache.
    """
    words = tuple(_move(word.replace(plan.directory, str(folder)), plan, folder) for word in plan.argv)
    if not plan.work.has_steps:
        return words
    if find_kind(plan.trainer).takes_command or "-m" not in words:
        return None
    at = words.index("-m")
    keep = ("--stop", "--programs", str(programs))
    place = ("--out", str(folder), "--topology", target.name, "--devices", str(target.devices), "--hbm-bytes", "0")
    return (*words[:at], "-P", str(COMPILE_RECORDER), *place, *keep, *words[at + 1 :])


def _move(word: str, plan: RunPlan, folder: Path) -> str:
    """Return a command-line word with `folder` as output. MaxText's words name the folder and its parent separately."""
    if word == f"run_name={Path(plan.directory).name}":
        return f"run_name={folder.name}"
    return f"base_output_directory={folder.parent}" if word.startswith("base_output_directory=") else word


def _weigh_unchanged(metric: str) -> tuple[float, str]:
    """Return (prior weight of a commit with an unchanged program, the reason if the weight is 0)."""
    if metric in (MEMORY.name, PROGRAM, PROGRAM_TIME.name):
        return 0.0, "its program is that of the commit before it"
    if metric in TIMES:
        return TIME_PRIOR, ""
    return (1.0 if metric in (CHECKPOINTS.name, END.name) else LOSS_PRIOR), ""


def weigh_commits(points: Sequence[BisectedPoint], metric: BisectedMetric) -> Line:
    """Return the line of the points, with the prior weight of each point and the points that train alike.

    A commit with the previous commit's source trains like the previous commit. A commit with another source but the
    previous commit's program can still change the host loop or the data.
    """
    weights, ruled_out = [0.0], {}
    for number, (before, here) in enumerate(pairwise(points), start=1):
        weight, reason = 1.0, ""
        if here.source and here.source == before.source:
            weight, reason = 0.0, "no source of the trainer changed"
        elif here.ledger.program and here.ledger.program == before.ledger.program:
            weight, reason = _weigh_unchanged(metric.name)
        weights.append(weight)
        if not weight:
            ruled_out[number] = reason
    last, alike = len(points) - 1, [0]
    for number, here in enumerate(points[1:], start=1):
        like_good = here.source and here.source == points[0].source
        alike.append(0 if like_good else number if weights[number] else alike[-1])
    if tail := alike[last]:  # the last commits that train like bad use the bad end's runs
        alike = [last if one == tail else one for one in alike]
    return Line(weights=tuple(weights), alike=tuple(alike), ruled_out=ruled_out)


def search_ledger(points: Sequence[BisectedPoint], metric: BisectedMetric) -> Finish | None:
    """Return the answer from the ledger alone if the metric is the program or its memory, else None.

    Also None if the metric is the memory and an end has none in its entry.
    """
    entries = [point.ledger for point in points]
    good, bad = entries[0], entries[-1]
    if metric.name == PROGRAM:
        if not (good.program and bad.program):
            return Finish(outcome="no difference", why=f"an end has no program: {good.error or bad.error}")
        marks = [None if one.program is None else one.program != good.program for one in entries]
    elif metric.name == MEMORY.name and good.memory_bytes and bad.memory_bytes:
        most = good.memory_bytes * MORE_MEMORY
        marks = [None if one.memory_bytes is None else one.memory_bytes > most for one in entries]
    else:
        return None
    return _last_change(points, marks, metric)


def _last_change(points: Sequence[BisectedPoint], is_bad: Sequence[bool | None], metric: BisectedMetric) -> Finish:
    """Return the result: the last change from good to bad. is_bad: per point, None if unknown.

    The result is a range if points of the change are unknown, and "no difference" if the bad end is no worse than good.
    """
    if not is_bad[-1]:
        return Finish(outcome="no difference", why=f"{metric.title}: the compiler makes the same of good and bad")
    good = max(number for number, mark in enumerate(is_bad) if mark is False)
    first, bad = is_bad.index(True), is_bad.index(True, good + 1)
    notes = []
    if first < good:
        notes.append(f"it comes, goes and comes again: bad at {{{first}}}, good again at {{{good}}}")
    programs = [point.ledger.program for point in points]
    others = [number for number in range(bad + 1, len(points)) if programs[number] not in (programs[number - 1], None)]
    if others and metric.name == PROGRAM:
        notes.append(f"the program changes again at {', '.join(f'{{{number}}}' for number in others)}")
    if bad != good + 1:
        suspects = tuple(range(good + 1, bad + 1))
        return Finish(outcome="range", why="the points between do not compile", suspects=suspects, notes=tuple(notes))
    return Finish(outcome="found", why="", culprit=bad, before=good, notes=tuple(notes))


def describe_program_change(before: LedgerEntry, here: LedgerEntry) -> str:
    """Return one line that describes how two entries' programs differ; empty if an entry has no program."""
    if before.program is None or here.program is None:
        return ""
    if before.program == here.program:
        return "the same program as before: the host loop, the data or the random keys changed"
    fields: Mapping[str, str] = {
        "memory_bytes": "memory", "flops": "FLOPs of products", "recomputed_flops": "recomputed",
        "collective_bytes": "bytes in collectives",
    }  # fmt: skip
    told = []
    for name, title in fields.items():
        left, right = getattr(before, name), getattr(here, name)
        if left != right and left is not None and right is not None:
            told.append(f"{title} {show_size(left)} → {show_size(right)}")
    return "another program: " + (", ".join(told) or "equal FLOPs, bytes in collectives and memory")


def show_size(value: int | None) -> str:
    """Return a count with a metric prefix, e.g. `1.2G`; a dash for None."""
    if value is None:
        return "–"
    power = min(len(PREFIXES) - 1, (len(str(abs(int(value)))) - 1) // 3)
    return f"{value / 1000**power:.3g}{PREFIXES[power]}"
