"""Reads and writes `program.json`, the evidence for comparing runs: hashes of the program, digests of states."""

import json
from pathlib import Path
from typing import Any

import jax
from etils import epath

from configs.installed import describe_trainer
from model.train.run_paths import write_whole
from model.train.step import CompiledStep

FILE = "program.json"
MEMORY_FIELDS = ("argument", "output", "temp", "alias", "host_temp", "generated_code")


def program_record(
    implementation: str, program: CompiledStep, *, num_devices: int, metrics_file: Path
) -> dict[str, Any]:
    """Return the record before training: `state` and `cross_restore` are None."""
    return {
        "format": 1,
        "implementation": implementation,
        "stablehlo_sha256": program.stablehlo_sha256,
        "hlo_sha256": program.hlo_sha256,
        "num_devices": num_devices,
        "jax": jax.__version__,
        "trainer": describe_trainer(),
        "metrics_file": str(metrics_file.absolute()),
        "memory_bytes": {name: getattr(program.memory, f"{name}_size_in_bytes", None) for name in MEMORY_FIELDS},
        "state": None,
        "cross_restore": None,
    }


def write_program(run_directory: epath.Path, record: dict[str, Any]) -> None:
    """Write the record. Only the first process of a run writes."""
    if jax.process_index() == 0:
        write_whole(run_directory / FILE, json.dumps(record, indent=1) + "\n")


def read_program_record(run_directory: epath.Path) -> dict[str, Any] | None:
    """Return the record in a run's folder; None if the file is missing."""
    path = run_directory / FILE
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text())
    return record
