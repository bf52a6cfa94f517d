"""Records of a run's results: `RunRecord`, stored as record.json, and `Baseline`, runs that were accepted (blessed)."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import polars as pl
from pydantic import field_serializer, field_validator

from configs.frozen import Frozen
from tasks.records.change import RanLines
from tasks.records.checkpoint_proof import CheckpointProof, CrossRestore
from tasks.records.json_numbers import rows_from_json, rows_to_json
from tasks.records.log_reading import RunReading, StepCompile
from tasks.records.plan import RunPlan, Training
from tasks.records.restored import Restored
from tasks.records.run_facts import RunFacts

START_FOLDER = "start"  # in a run's folder: the shared state and the report
RESTORED = "restored"  # in a run's folder: the runs by which its restore was checked
START_FILE = "start.json"  # the report in START_FOLDER


class StartReport(Frozen):
    """The report of a shared start: which of the step's arguments were replaced with another run's first state."""

    replaced: tuple[str, ...] = ()  # names of arguments
    kept: dict[str, str] = {}  # name of an argument → why it was not replaced
    unused: tuple[str, ...] = ()  # saved arguments that this step does not have
    own_values: tuple[str, ...] = ()  # kept arguments other than random numbers and counters
    own_batches_from: int | None = None  # first step with the run's own batch; None: every batch was replaced
    reason: str | None = None  # why no argument was replaced; None: at least one was

    @property
    def is_shared(self) -> bool:
        """Whether both arms start with equal weights, moments and data."""
        return self.reason is None and bool(self.replaced) and not self.own_values


class RunRecord(Frozen):
    """All results of one run of an arm (a compared version), written atomically at the run's end."""

    plan: RunPlan | None  # None if the log was ingested, not written by a run of maxview
    arm: str  # name of the arm
    label: str  # the arm's name for display, e.g. "linen · 147168c3a"
    commit: str | None  # of the trainer; None if unknown
    log: str  # path of the log
    reading: RunReading
    proofs: tuple[CheckpointProof, ...] = ()
    metrics: pl.DataFrame | None = None  # the trainer's JSON lines, in full precision; None without them
    start: StartReport | None = None  # None: the run did not load another arm's first state
    crossing: CrossRestore | None = None  # only of MaxText: maxview's trainer reports its cross restore in `program`
    restored: Restored | None = None  # of its program, started again where it saved; None: not checked
    program: dict[str, Any] = {}  # the trainer's program.json: program hash, state digests, cross restore
    compiles: tuple[StepCompile, ...] = ()  # of the training step, from files that JAX wrote
    ran: RanLines | None = None  # lines of the trainer's checkout that it executed; None: without a checkout
    # parameters with equal bits in its first and last verified checkpoint, if it reports no digests; None: not compared
    frozen: tuple[str, ...] | None = None
    host_peak_b: int | None = None  # largest resident memory of one of its processes, by our supervisor; None: unknown
    facts: RunFacts | None = None  # None in records of older versions; see `tasks.metrics.compute_facts`

    @property
    def is_finished(self) -> bool:
        """Whether repeating the run would give the same result: exit code 0, or a compile that the compiler refused.

        Other failures may be accidental.
        """
        return (self.plan.work if self.plan else Training()).is_final(self.reading.exit_code)

    @property
    def has_died(self) -> bool:
        """Whether the run ended badly."""
        return self.reading.has_died

    @cached_property
    def derived(self) -> dict[str, tuple[tuple[Any, ...], Any]]:
        """The cache of `derive`, not stored: name -> (the parts of the record used, the computed value)."""
        return {}

    def derive[T](self, name: str, compute: Callable[["RunRecord"], T]) -> T:
        """Return `compute(self)`, cached under `name` until reading, metrics or program is another object.

        Copies that are made after the first call share the cache.
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


class Blessing(Frozen):
    """One acceptance of new runs as the baseline."""

    day: str  # ISO 8601
    reason: str  # why the new values are accepted
    commit: str | None  # the trainer's commit in the blessed runs; None if unknown
    values: dict[str, tuple[str, str]] = {}  # title of each changed row -> (old, new) value as text


class Baseline(Frozen):
    """A baseline file's content: the newest blessed runs, with which later runs are compared, and all blessings."""

    comparison: str
    case: str
    target: str
    blessings: tuple[Blessing, ...]  # the newest last
    shown: dict[str, str]  # title of a row -> the newest blessed value as text
    runs: tuple[RunRecord, ...]
