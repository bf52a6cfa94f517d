"""Builds a finished run's record from the files in its folder."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from configs.backends import settings_model
from tasks.ingest.log_causes import find_lost_lines, read_host_peak, with_cause, with_frame, with_place
from tasks.launch.backend import CAUSE_LINE
from tasks.launch.logs import list_earlier_logs, rename_earlier_log
from tasks.metrics.compute_facts import with_facts
from tasks.observe.kept_program import keep_step_program, read_compiles
from tasks.observe.shared_start import read_ran, read_start
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.json_numbers import metric_from_json, step_from_json
from tasks.records.log_reading import RunReading
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.trainers import trainer_class
from tasks.resolve.trainers.maxtext_metrics import (
    TENSORBOARD,
    has_maxtext_keys,
    read_maxtext_events,
    read_maxtext_metrics,
)
from tasks.scrape.read_log import scrape_run
from tasks.scrape.window import LogFormatError
from tasks.store.atomic import explain_full
from tasks.store.directories import RunDirectory


def read_run_log(log: Path) -> RunReading:
    """Return the reading of a launched run's log.

    A log in no known format was removed or overwritten by the run itself. It is renamed, and a new log that states
    only this cause of death is written and read.
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
    """Return the record of a run. directory: the run's folder; reading: of its log; proofs: of its checkpoints."""
    keep_step_program(directory.path)
    program = directory.read_program() or {}
    # the commit that the trainer reported has priority over the planned one
    commit = program.get("trainer", {}).get("commit") or plan.commit or reading.commit
    lost = find_lost_lines(directory.log, reading.span)
    named = {"name": plan.run_name, "coverage": reading.coverage.replace(lost=lost)}
    named["branch"] = plan.ref or reading.branch
    reading = with_place(reading.replace(**named), directory.log)
    reading = with_frame(with_cause(reading, directory.log, supervised=True), directory.log, plan.source)
    record = RunRecord(
        plan=plan,
        arm=plan.arm,
        label=trainer_class(plan.trainer).label_run(plan, commit),
        commit=commit,
        log=directory.log_address,
        reading=with_full_disk(reading, directory.path) if settings_model(plan.backend).shares_files else reading,
        proofs=tuple(sorted(proofs, key=lambda proof: (proof.step is None, proof.step))),
        metrics=read_run_metrics(plan, directory, reading),
        start=read_start(plan),
        ran=read_ran(plan),
        crossing=directory.read_crossing(),
        restored=directory.read_restored(),
        program=program,
        host_peak_b=read_host_peak(reading, directory.log),
        # unknown for a run with several attempts, because their compiled programs are in one folder
        compiles=() if list_earlier_logs(directory.log) else read_compiles(directory.path),
    )
    return with_facts(record)


def adopt_run(record: RunRecord, plan: RunPlan) -> RunRecord:
    """Return the record of a finished run that a request reuses, with the names of this request.

    The run may have trained the same files under the name of another branch, or before they were committed.
    """
    before = record.plan
    if not plan.tree or before is None:
        return record
    names = ("ref", "version", "commit", "commits", "repository", "checkout", "argv", "start_folder")

    def rename(commit: str | None) -> str | None:
        return plan.commit if commit == before.commit else commit  # a run that reported another commit stays noticed

    trainer = record.program.get("trainer") or {}
    reported = {"trainer": trainer | {"commit": rename(trainer.get("commit"))}} if trainer else {}
    commit = rename(record.commit)
    changes = {
        "plan": before.replace(**{name: getattr(plan, name) for name in names}),
        "label": trainer_class(plan.trainer).label_run(plan, commit),
        "commit": commit,
        "reading": record.reading.replace(branch=plan.ref, commit=rename(record.reading.commit)),
        "program": record.program | reported,
    }
    return record.replace(**changes)


def with_full_disk(reading: RunReading, folder: Path) -> RunReading:
    """Return the reading; if the run died of a full disk and its error has no path, the error names `folder`'s disk."""
    error = reading.error
    if error is None or error.kind != "disk_full" or "/" in error.message:
        return reading
    message = explain_full(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) or error.message
    why = f"line {error.line} says: {error.message}"
    return reading.died_of(error.replace(message=message, why=why))


def read_run_metrics(plan: RunPlan, directory: RunDirectory, reading: RunReading) -> pl.DataFrame | None:
    """Return the metrics that the trainer wrote in full precision, as JSON lines or TensorBoard files; or None.

    TensorBoard files count only if they contain every step of the log: a killed trainer may not have flushed the last
    steps.
    """
    metrics = read_metrics(directory.path / plan.files.metrics)
    if metrics is not None:
        return metrics
    events = read_maxtext_events(directory.path / TENSORBOARD)
    if events is None or not set(reading.steps["step"]) <= set(events["step"]):
        return None
    return events


def read_metrics(path: Path) -> pl.DataFrame | None:
    """Return the trainer's JSON lines as a frame; None without a file or rows. A last line that a crash cut is dropped.

    Lines without a step are left out, and lines that tell other values of one step are one row; values that are no
    numbers become null. MaxText's JSON lines are recognised by
    their content. Raises ValueError naming a line that is not a JSON object, or whose step is no whole number.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    if has_maxtext_keys(text):
        return read_maxtext_metrics(path)
    *lines, _torn = text.split("\n")  # text after the last line break is incomplete
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            row: dict[str, Any] = {key: metric_from_json(value) for key, value in json.loads(line).items()}
            if "step" in row:
                row["step"] = step_from_json(row["step"])
                if rows and row["step"] == rows[-1]["step"] and rows[-1].keys() & row.keys() == {"step"}:
                    rows[-1] |= row  # such as an evaluation after the step
                else:
                    rows.append(row)
        except (ValueError, RecursionError, AttributeError) as error:
            raise ValueError(f"{path}:{number}: not a JSON object with the number of a step: {line[:40]!r}") from error
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None
