"""The record of a run: its reading, metrics and checkpoint proofs."""

from typing import Any

import polars as pl
from pydantic import field_serializer, field_validator

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointProof
from tasks.records.equality import CrossRestore
from tasks.records.json_numbers import number_to_json, rows_from_json
from tasks.records.plan import RunPlan
from tasks.records.reading import RunReading
from tasks.records.start_report import StartReport


class RunRecord(Frozen):
    """The record of a run, written once and atomically at its end; if it exists, the run is not repeated."""

    plan: RunPlan | None  # None for an ingested log
    arm: str
    label: str  # its name on pages, e.g. "linen · 147168c3a"
    commit: str | None
    log: str  # path of the log
    reading: RunReading
    proofs: tuple[CheckpointProof, ...] = ()
    metrics: pl.DataFrame | None = None  # the trainer's JSON lines, full precision; None if there are none
    start: StartReport | None = None  # what it took from the other arm's first state; None without a shared start
    crossing: CrossRestore | None = None  # for other trainers; ours reports it in `program`
    program: dict[str, Any] = {}  # the trainer's program.json: program hash, state digests, cross restore

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete, so that repeating it gives the same result.

        A death may be accidental, except a compiler's refusal of the program.
        """
        refused = self.plan is not None and self.plan.compiles_for is not None and self.reading.exit_code == 1
        return self.reading.exit_code == 0 or refused

    @property
    def has_died(self) -> bool:
        """Whether the run ended badly."""
        return self.reading.has_died

    @field_validator("metrics", mode="before")
    @classmethod
    def _frame_from_rows(cls, value: Any) -> pl.DataFrame | None:
        if value is None or isinstance(value, pl.DataFrame):
            return value
        rows = rows_from_json(value)
        return pl.DataFrame(rows, infer_schema_length=None)

    @field_serializer("metrics")
    def _rows_of_frame(self, frame: pl.DataFrame | None) -> list[dict[str, Any]] | None:
        if frame is None:
            return None
        return [{k: number_to_json(v) for k, v in row.items()} for row in frame.iter_rows(named=True)]
