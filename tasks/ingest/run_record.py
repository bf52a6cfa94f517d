"""Builds the record of a finished run from the files in its folder."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tasks.ingest.last_words import find_end, find_lost_lines, find_place, find_platform_cause, find_refusal
from tasks.launch.backend import CAUSE_LINE
from tasks.launch.cross_maxtext import read_crossing
from tasks.launch.logs import list_earlier_logs, rename_earlier_log
from tasks.launch.supervise import CANNOT_START, TIMED_OUT
from tasks.metrics.compute_facts import with_facts
from tasks.observe.kept_program import keep_step_program, read_compiles
from tasks.observe.shared_start import read_start
from tasks.records import (
    CheckpointProof,
    DeathKind,
    LogError,
    RunPlan,
    RunReading,
    RunRecord,
    metric_from_json,
    step_from_json,
)
from tasks.resolve.trainers.maxtext_events import FOLDER, read_maxtext_events
from tasks.resolve.trainers.maxtext_metrics import read_maxtext_metrics, wrote_metrics
from tasks.resolve.trainers.trainer_source import SOURCE
from tasks.scrape import LogFormatError, scrape_run
from tasks.store import RunDirectory
from tasks.store.disk import explain_full

REFUSED = 2  # exit code of programs that refuse their input


def read_run_log(log: Path) -> RunReading:
    """Return the reading of a launched run's log.

    A log that cannot be read was removed or overwritten by the run itself. It is renamed, and a new log with only this
    cause of death is written and read.
    """
    try:
        return scrape_run(log)
    except LogFormatError as error:
        rename_earlier_log(log)
        cause = CAUSE_LINE.format(type="UnreadableLog", message=f"the run itself removed or overwrote it: {error}")
        log.write_text(f"XPK Start: \n{cause}\n", encoding="utf-8")
        return scrape_run(log)


def build_record(
    plan: RunPlan, directory: RunDirectory, reading: RunReading, proofs: Sequence[CheckpointProof]
) -> RunRecord:
    """Return the record of a run from its folder; `reading` is that of its log, `proofs` those of its checkpoints."""
    keep_step_program(directory.path)
    program = directory.read_program() or {}
    # the commit that the trainer reported has priority over the planned one
    commit = program.get("trainer", {}).get("commit") or plan.commit or reading.commit
    lost = find_lost_lines(directory.log, reading.span)
    named = {"name": plan.run_name, "coverage": reading.coverage.model_copy(update={"lost": lost})}
    named["branch"] = plan.ref or reading.branch
    reading = with_place(reading.model_copy(update=named), directory.log)
    reading = with_cause(reading, directory.log, supervised=True)
    record = RunRecord(
        plan=plan,
        arm=plan.arm,
        label=f"{plan.arm if plan.aa else plan.ref or plan.arm} · {name_version(plan, commit)}",
        commit=commit,
        log=directory.log_address,
        reading=with_full_disk(reading, directory.path) if plan.backend == "local" else reading,
        proofs=tuple(sorted(proofs, key=lambda proof: (proof.step is None, proof.step))),
        metrics=read_run_metrics(plan, directory, reading),
        start=read_start(plan),
        crossing=read_crossing(directory.path),
        program=program,
        # unknown for a run with several attempts, because their compiled programs are in one folder
        compiles=() if list_earlier_logs(directory.log) else read_compiles(directory.path),
    )
    return with_facts(record)


def name_version(plan: RunPlan, commit: str | None) -> str:
    """Return the trainer's version for display: its commit, else its package version."""
    short = commit[:9] if commit else None
    if plan.trainer == "maxtext":
        return f"MaxText {short or plan.versions.get('maxtext', 'of an image')}"
    if plan.trainer == "command" and short is None and SOURCE in plan.versions:
        return f"source {plan.versions[SOURCE]}"
    return short or "no commit"


def with_place(reading: RunReading, log: Path) -> RunReading:
    """Return the reading with the cluster and nodes of its run, if the launcher wrote them into the log."""
    place = find_place(log, reading.span)
    return reading.model_copy(update={"environment": reading.environment.model_copy(update={"place": place})})


def with_cause(reading: RunReading, log: Path, *, supervised: bool) -> RunReading:
    """Return the reading of a failed run with a cause: the cluster's reason, or the log's error, or the exit code.

    supervised: maxview's supervisor ran the trainer. It writes the exit code, so a missing one means that it was killed
    too. In other logs it means nothing, because most trainers print none.
    """
    if reading.exit_code == 0:
        return reading
    ended = find_platform_cause(log, reading.span)
    if ended is not None:  # the platform's reason outranks the trainer's error
        return reading.died_of(ended)
    if reading.error is not None:
        return reading
    code = reading.exit_code
    if code is None and not supervised:
        return reading
    # maxview's trainer and argparse exit with 2 if they refuse their input
    refused = code == REFUSED and reading.steps.is_empty()
    if refused and (said := find_refusal(log, reading.span)):
        return reading.died_of(said)
    kind, message = "ExitCode", f"ended with exit code {code} and no exception in its log"
    death: DeathKind = "configuration" if refused else "other"
    if code is None:
        message = "the log ends without an exit code: the process and its supervisor were killed"
        kind, death = "Killed", "killed"
    elif code == TIMED_OUT:
        kind, death, message = "TimeLimit", "timeout", "the time limit was reached"
    elif code == CANNOT_START:
        kind, death, message = "CannotStart", "configuration", "the command could not be started"
    place = find_end(log, reading.span)
    error = LogError(type=kind, message=message, line=place.line, offset=place.offset, kind=death)
    return reading.died_of(error)


def with_full_disk(reading: RunReading, folder: Path) -> RunReading:
    """Return the reading; if the run died of a full disk and its error names no path, with the disk of `folder`."""
    error = reading.error
    if error is None or error.kind != "disk_full" or "/" in error.message:
        return reading
    message = explain_full(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) or error.message
    why = f"line {error.line} says: {error.message}"
    return reading.died_of(error.model_copy(update={"message": message, "why": why}))


def read_run_metrics(plan: RunPlan, directory: RunDirectory, reading: RunReading) -> pl.DataFrame | None:
    """Return the metrics that the trainer wrote in full precision: JSON lines or TensorBoard files; None without any.

    TensorBoard files count only if they contain every step of the log: a killed trainer may not have flushed the last
    steps.
    """
    metrics = read_metrics(directory.path / plan.files.metrics)
    if metrics is not None:
        return metrics
    events = read_maxtext_events(directory.path / FOLDER)
    if events is None or not set(reading.steps["step"]) <= set(events["step"]):
        return None
    return events


def read_metrics(path: Path) -> pl.DataFrame | None:
    """Return the trainer's JSON lines as a frame; None without any. A last line cut off by a crash is dropped.

    Lines without a step are left out; values that are no numbers become null. MaxText's JSON lines are recognised by
    their content: a replayed run's file may be MaxText's whatever its plan says. Raises ValueError naming a line that
    is not a JSON object, or whose step is no whole number.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    if wrote_metrics(text):
        return read_maxtext_metrics(path)
    *lines, _torn = text.split("\n")  # text after the last line break is incomplete
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = {key: metric_from_json(value) for key, value in json.loads(line).items()}
            if "step" in row:
                rows.append(row | {"step": step_from_json(row["step"])})
        except (ValueError, RecursionError, AttributeError) as error:
            raise ValueError(f"{path}:{number}: not a JSON object with the number of a step: {line[:40]!r}") from error
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None
