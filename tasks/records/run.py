"""The record of a run: its reading, metrics and checkpoint proofs."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import polars as pl
from pydantic import field_serializer, field_validator

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointProof
from tasks.records.compiled import StepCompile
from tasks.records.equality import CrossRestore
from tasks.records.json_numbers import rows_from_json, rows_to_json
from tasks.records.plan import RunPlan
from tasks.records.reading import RunReading
from tasks.records.run_facts import RunFacts
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
    start: StartReport | None = None  # its report of a shared start; None without one
    crossing: CrossRestore | None = None  # for other trainers; ours reports it in `program`
    program: dict[str, Any] = {}  # the trainer's program.json: program hash, state digests, cross restore
    compiles: tuple[StepCompile, ...] = ()  # of the training step, from the programs that JAX wrote to files
    facts: RunFacts | None = None  # None: of an older maxview; `tasks.metrics.compute_facts` then computes them

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

    @cached_property
    def derived(self) -> dict[str, tuple[tuple[Any, ...], Any]]:
        """In memory only: what `derive` computed, with the parts of the record that it was computed from."""
        return {}

    def derive[T](self, name: str, compute: Callable[["RunRecord"], T]) -> T:
        """Return `compute(self)`, and the same object again while reading, metrics and program are the same objects.

        Copies of a record share the values; a copy with another reading computes its own.
        """
        parts = (self.reading, self.metrics, self.program)
        known, value = self.derived.get(name, ((), None))
        if len(known) != len(parts) or any(a is not b for a, b in zip(known, parts, strict=True)):
            value = compute(self)
            self.derived[name] = (parts, value)
        return value  # type: ignore[no-any-return]

    @field_validator("metrics", mode="before")
    @classmethod
    def _frame_from_rows(cls, value: Any) -> pl.DataFrame | None:
        if value is None or isinstance(value, pl.DataFrame):
            return value
        return pl.DataFrame(rows_from_json(value), infer_schema_length=None)

    @field_serializer("metrics")
    def _rows_of_frame(self, frame: pl.DataFrame | None) -> list[dict[str, Any]] | None:
        return None if frame is None else rows_to_json(frame)
