"""Puts what a finished run left in its folder together into its record."""

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tasks.records import CheckpointProof, LogError, RunPlan, RunReading, RunRecord, number_from_json
from tasks.store import RunDirectory


def build_record(
    plan: RunPlan, directory: RunDirectory, reading: RunReading, proofs: Sequence[CheckpointProof]
) -> RunRecord:
    """The record of a run that this store holds."""
    short = plan.commit[:9] if plan.commit else "no commit"
    return RunRecord(
        plan=plan,
        arm=plan.arm,
        label=f"{plan.arm} · {short}",
        commit=plan.commit,
        log=str(directory.log),
        reading=with_cause(reading.model_copy(update={"name": plan.run_name})),
        proofs=tuple(sorted(proofs, key=lambda proof: (proof.step is None, proof.step))),
        metrics=read_metrics(directory.metrics),
        program=directory.read_program() or {},
    )


def with_cause(reading: RunReading) -> RunReading:
    """A reading whose end has a cause: a log without an exception and without an end was cut off."""
    if reading.error is not None or reading.exit_code == 0:
        return reading
    last = reading.steps.row(-1, named=True) if reading.steps.height else {"line": 1, "offset": reading.span[0]}
    if reading.exit_code is None:
        kind, message = "Killed", "the log ends without an exit code: the process and its supervisor were killed"
    elif reading.exit_code > 128:
        kind, message = "Killed", f"ended by signal {reading.exit_code - 128}"
    elif reading.exit_code == 124:
        kind, message = "TimeLimit", "the time limit was reached"
    else:
        kind, message = "ExitCode", f"ended with exit code {reading.exit_code} and no exception in its log"
    error = LogError(type=kind, message=message, line=last["line"], offset=last["offset"])
    return reading.model_copy(update={"error": error})


def read_metrics(path: Path) -> pl.DataFrame | None:
    """The trainer's JSON lines as a frame; None if there are none. A line cut off by a crash is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    rows = []
    for number, line in enumerate(lines):
        try:
            rows.append({key: number_from_json(value) for key, value in json.loads(line).items()})
        except json.JSONDecodeError:
            if number != len(lines) - 1:
                raise ValueError(f"{path}:{number + 1}: not a JSON line") from None
    return pl.DataFrame(rows, infer_schema_length=None) if rows else None


def unverified_steps(directory: RunDirectory, proofs: Sequence[CheckpointProof]) -> list[Path]:
    """Checkpoint folders that no commit message led to: left unfinished, or committed after the log was cut."""
    if not directory.checkpoints.is_dir():
        return []
    seen = {Path(proof.path).resolve() for proof in proofs}
    folders = [path for path in sorted(directory.checkpoints.iterdir()) if path.is_dir() and path.name[:1].isdigit()]
    return [path for path in folders if path.resolve() not in seen]


def is_finished(record: RunRecord) -> bool:
    """Whether a run went to its end, so that running it again would tell nothing new. A death may have been chance."""
    return record.reading.exit_code == 0
