"""Records of a parsed log: one `RunReading` per run, with tables of steps, timers and memory per rank."""

from typing import Any

import polars as pl
from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointEvent, Restore
from tasks.records.compiled import StepCompile
from tasks.records.coverage import Coverage, Stall, Wait
from tasks.records.environment import Environment, Flops, Memory, Parameters
from tasks.records.json_numbers import rows_from_json, rows_to_json
from tasks.records.run_end import LogError, RunEnd, decide_fate
from tasks.records.source import Source

STEP_SCHEMA: dict[str, Any] = {
    "step": pl.Int64,
    "seconds": pl.Float64,
    "tflops_per_device": pl.Float64,
    "tokens_per_s_per_device": pl.Float64,
    "total_weights": pl.Int64,
    "loss": pl.Float64,
    # then one column for each other key of the step lines, then:
    "time": pl.String,  # ISO 8601, from the line's prefix; null without one
    "line": pl.Int64,
    "offset": pl.Int64,
}
TIMER_SCHEMA: dict[str, Any] = {
    "timer": pl.String,
    "min_ms": pl.Float64,  # minimum over the ranks, in milliseconds
    "max_ms": pl.Float64,  # maximum over the ranks
    "line": pl.Int64,
    "offset": pl.Int64,
}
RANK_MEMORY_SCHEMA: dict[str, Any] = {
    "rank": pl.Int64,
    "iterations": pl.Int64,  # number of iterations before the row was printed
    # then one column for each printed number, named by its name and unit (null if missing), then:
    "line": pl.Int64,
    "offset": pl.Int64,
}


class RunReading(RunEnd):
    """The contents of a log for one run. Columns `line` (1-based) and `offset` (bytes) are positions in the log."""

    name: str  # name of the run in its log
    format: str  # name of the log dialect
    branch: str | None = None  # None if the log does not show it
    commit: str | None = None  # None if the log does not show it
    started: str | None = None  # ISO 8601
    ended: str | None = None  # ISO 8601; None if unknown, as for `started`
    steps: pl.DataFrame = Field(default_factory=lambda: pl.DataFrame(schema=STEP_SCHEMA))
    survived: LogError | None = None  # an exception after the last step of a run with exit code 0
    evals: tuple[dict[str, Any], ...] = ()  # one dict per evaluation: key -> value, with line and offset
    environment: Environment = Environment()
    memory: Memory = Memory()
    parameters: Parameters = Parameters()
    flops: Flops = Flops()
    checkpoints: tuple[CheckpointEvent, ...] = ()
    restores: tuple[Restore, ...] = ()
    stalls: tuple[Stall, ...] = ()
    waits: tuple[Wait, ...] = ()
    compiles: tuple[StepCompile, ...] = ()  # of the training step; empty unless JAX_LOG_COMPILES is set
    deferred: bool = False  # whether each step line is printed only during the next step
    config: dict[str, str] = {}  # the printed config: key -> text
    ranks: tuple[dict[str, Any], ...] = ()  # keys of a dict: rank, tensor, pipeline, parameters, schedule
    # JSON stores these rows in `ranks`, under the key `memory` of their rank
    rank_memory: pl.DataFrame = Field(default_factory=lambda: pl.DataFrame(schema=RANK_MEMORY_SCHEMA), exclude=True)
    schedule: tuple[dict[str, Any], ...] = ()  # pipeline events: rank, direction, event, tensor, position
    facts: dict[str, Any] = {}  # values that only this dialect has: name -> {value, line, offset}
    sources: dict[str, Source] = {}  # name of a value in environment or flops, or "config.<key>" -> its position
    timers: pl.DataFrame = Field(default_factory=lambda: pl.DataFrame(schema=TIMER_SCHEMA))
    source_file: str | None = None  # the code that printed the step lines, e.g. "metric_logger.py:196"
    printers: dict[str, str] = {}  # name of another message -> the code that printed it
    span: tuple[int, int] = (0, 0)  # byte range [start, end) of this run's text in the file
    coverage: Coverage = Coverage()

    @model_validator(mode="before")
    @classmethod
    def _fate_of_the_rest(cls, value: Any) -> Any:
        """Derive a missing `fate` from the other fields: some log parsers do not set it."""
        if not isinstance(value, dict) or "fate" in value:
            return value
        code, coverage = value.get("exit_code"), value.get("coverage")
        error = value["error"] if code != 0 and isinstance(value.get("error"), LogError) else None
        cut = isinstance(coverage, Coverage) and coverage.truncated
        return {**value, "fate": decide_fate(code, error, is_cut_off=cut)}

    @field_validator("steps", "timers", mode="before")
    @classmethod
    def _frame_from_rows(cls, value: Any, info: ValidationInfo) -> pl.DataFrame:
        if isinstance(value, pl.DataFrame):
            return value
        rows, schema = rows_from_json(value), STEP_SCHEMA if info.field_name == "steps" else TIMER_SCHEMA
        keys = dict.fromkeys(key for row in rows for key in row) or schema
        return pl.DataFrame(rows, schema={key: schema.get(key) for key in keys}, infer_schema_length=None)

    @model_validator(mode="before")
    @classmethod
    def _memory_of_ranks(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not any("memory" in rank for rank in value.get("ranks", ())):
            return value
        rows = [{"rank": rank["rank"], **row} for rank in value["ranks"] for row in rank.get("memory") or ()]
        ranks = [{key: item for key, item in rank.items() if key != "memory"} for rank in value["ranks"]]
        return {**value, "ranks": ranks, "rank_memory": _rank_memory(rows)}

    @field_serializer("ranks")
    def _ranks_with_memory(self, ranks: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        rows: dict[int, list[dict[str, Any]]] = {}
        for row in rows_to_json(self.rank_memory):
            rank = row.pop("rank")
            rows.setdefault(rank, []).append({key: item for key, item in row.items() if item is not None})
        return [{**rank, "memory": rows.get(rank["rank"], [])} for rank in ranks]

    @field_serializer("steps", "timers")
    def _rows_of_frame(self, frame: pl.DataFrame) -> list[dict[str, Any]]:
        return rows_to_json(frame)


def _rank_memory(rows: list[dict[str, Any]]) -> pl.DataFrame:
    keys = dict.fromkeys(key for row in rows for key in row if key not in RANK_MEMORY_SCHEMA)
    place = {"line": pl.Int64, "offset": pl.Int64}
    schema = {"rank": pl.Int64, "iterations": pl.Int64, **dict.fromkeys(keys, pl.Float64), **place}
    return pl.DataFrame(rows_from_json(rows), schema=schema)


class LogReading(Frozen):
    """A parsed log file. `page`: the field `case` of the MaxView page that contained the log; None without a page."""

    format: str
    runs: tuple[RunReading, ...]
    page: dict[str, Any] | None = None
