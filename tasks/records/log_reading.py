"""Records of a parsed log: one `RunReading` per run of the trainer, and `LogEvent` for a log that is still growing."""

from typing import Any

import polars as pl
from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from configs.frozen import Frozen
from tasks.records.checkpoint_proof import CheckpointEvent, Restore
from tasks.records.json_numbers import rows_from_json, rows_to_json
from tasks.records.run_end import LogError, RunEnd, decide_fate
from tasks.records.shared_fields import Source, run_number


class Environment(Frozen):
    """The software and hardware that a log prints; None for values that it does not contain."""

    jax: str | None = None  # version
    jaxlib: str | None = None  # version
    libtpu: str | None = None  # libtpu's build, e.g. "cl/878335365, Mar 4 2026"
    backend: str | None = None  # JAX's platform, e.g. "tpu"
    device_kind: str | None = None  # e.g. "TPU v6 lite"
    num_devices: int | None = None  # of all processes
    mesh: dict[str, int] | None = None  # axis of the device mesh -> size, without axes of size 1
    process_index: int | None = None  # JAX's number of the process that wrote the log
    place: str | None = None  # cluster and nodes, from the launcher's notes in the log


class DeviceMemory(Frozen):
    """The memory use of one device, from a line `Using (GB) used / limit (percent) on device`."""

    device: str  # name of the device, as printed
    used_gb: float  # in GB as printed
    limit_gb: float
    percent: float  # 100 × used / limit
    line: int  # 1-based
    offset: int  # byte offset of the line


class Memory(Frozen):
    """The compiler's estimate of the program's memory in GB as printed, and the measured use of each device."""

    total_gb: float | None = None  # *_gb: None if not printed
    output_gb: float | None = None
    temp_gb: float | None = None
    argument_gb: float | None = None
    host_temp_gb: float | None = None
    source: Source | None = None  # position of the estimate; None without one
    devices: tuple[DeviceMemory, ...] = ()
    unavailable: str | None = None  # error in the line `Memstats unavailable, error: …`


class ParameterArray(Frozen):
    """One array in the list of parameters that a trainer prints."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    logical: str | None = None  # logical axis names, as printed
    physical: str | None = None  # mesh axes, as printed


class Parameters(Frozen):
    """The number of parameters and the list of parameter arrays, as printed."""

    count: int | None = None  # None if not printed, or printed as 0
    printed: str | None = None  # the text from which `count` was read
    source: Source | None = None
    arrays: tuple[ParameterArray, ...] = ()


class Flops(Frozen):
    """The FLOPs of a training step per device, from the block `Per train step:`."""

    total_tflops: float | None = None  # in TFLOP
    weight_pct: float | None = None  # percent of the FLOPs in products with weights
    attention_pct: float | None = None  # percent of the FLOPs in attention


class Stall(Frozen):
    """A training step that took far longer than its neighbours, and the cause."""

    step: int
    seconds: float  # of the whole step
    cause: str  # "compile", "restart", "dispatch", "checkpoint", "eval", "profiler" or "unexplained"
    line: int  # number of the step's line in the log
    offset: int  # byte offset of that line
    run: int = run_number()


class Wait(Frozen):
    """One wait in a log. The printed seconds of the steps do not contain the wait."""

    part: str  # one of "waits for saves", "blocking saves", "wait at the end", "evaluation at the end"
    seconds: float
    line: int  # number of the line with the wait
    offset: int  # byte offset of that line


class StepCompile(Frozen):
    """One compilation of the training step during a run, as JAX reports it."""

    signature: tuple[str, ...]  # type per argument: "float32[4,3]" from a log, "4x3xf32" from a program's text
    source: Source | None = None  # position in the log; None if JAX wrote the program to a file


class UnreadLine(Frozen):
    """A line that looks like a step line but was not parsed, because a number in it may be damaged."""

    line: int  # 1-based
    offset: int  # byte offset
    text: str  # beginning of the line


class Coverage(Frozen):
    """The completeness of a log reading: the lines that look like data, and how many of them were parsed."""

    step_lines_seen: int = 0  # number of lines that look like step lines
    step_lines_parsed: int = 0  # number of parsed step lines
    gaps: tuple[tuple[int, int], ...] = ()  # ranges (first, last) of missing steps
    lost: tuple[str, ...] = ()  # notes in the log about lines that maxview's launcher could not fetch
    rewinds: int = 0  # number of step lines whose step is not larger than the step before
    glued_lines: int = 0  # number of lines that contain several records, e.g. from two processes
    truncated: bool = False  # the log ends within a line, without the run's end
    unknown_keys: tuple[str, ...] = ()  # keys in step lines that the parser does not know
    complete: bool = False  # the log shows the run's end, is not truncated, and every step line was parsed
    unwrapped: tuple[str, ...] = ()  # formats that were removed from around the log, e.g. "gzip", "kubectl prefixes"
    unread: tuple[UnreadLine, ...] = ()  # the first few unparsed step lines


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
    """One run in a log. Columns `line` (1-based) and `offset` (bytes) of the tables are positions in the log."""

    name: str  # name of the run in its log
    format: str  # name of the log's dialect (a trainer's log format)
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
    facts: dict[str, Any] = {}  # values that only this log's dialect has: name -> {value, line, offset}
    sources: dict[str, Source] = {}  # name of a value in environment or flops, or "config.<key>" -> its position
    timers: pl.DataFrame = Field(default_factory=lambda: pl.DataFrame(schema=TIMER_SCHEMA))
    source_file: str | None = None  # the code that printed the step lines, e.g. "metric_logger.py:196"
    printers: dict[str, str] = {}  # name of a message, other than the step lines -> the code that printed it
    span: tuple[int, int] = (0, 0)  # byte range [start, end) of this run's text in the file
    coverage: Coverage = Coverage()

    @model_validator(mode="before")
    @classmethod
    def _derive_fate(cls, value: Any) -> Any:
        """Derive a missing `fate` from the other fields: some log parsers do not set it."""
        if not isinstance(value, dict) or "fate" in value:
            return value
        code, coverage = value.get("exit_code"), value.get("coverage")
        error = value["error"] if code != 0 and isinstance(value.get("error"), LogError) else None
        cut = isinstance(coverage, Coverage) and coverage.truncated
        return {**value, "fate": decide_fate(code, error, lacks_end=cut)}

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
    def _extract_rank_memory(cls, value: Any) -> Any:
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
    """A parsed log file.

    `page`: the field `case` of the page of MaxView (another tool) from which the log was read; None: not from a page.
    """

    format: str
    runs: tuple[RunReading, ...]
    page: dict[str, Any] | None = None


class StepCompleted(Frozen):
    """A step was printed. `seconds` and `loss` are None if the line lacks them; `text`: the line without prefix."""

    step: int
    seconds: float | None
    loss: float | None
    text: str
    line: int
    offset: int


class CheckpointStarted(Frozen):
    """A save began; it may never be committed."""

    step: int
    path: str | None  # None if not printed
    line: int
    offset: int


class CheckpointCommitted(Frozen):
    """The log shows that a checkpoint is complete."""

    step: int
    path: str
    line: int
    offset: int


class RunEnded(RunEnd):
    """The run has ended. Without exit code and error: its processes are gone and the log shows no end."""


type LogEvent = StepCompleted | CheckpointStarted | CheckpointCommitted | RunEnded
