"""The nouns that the steps hand to each other: each is defined once, frozen, and knows where its values stand."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import Field, field_serializer, field_validator, model_validator

from configs.launch import Xpk
from configs.schema import Frozen

Verdict = Literal["same", "improved", "regressed", "unknown"]
Better = Literal["higher", "lower", "equal"]
BackendName = Literal["local", "replay", "xpk"]

# ---------------------------------------------------------------- plan and handle


class RunPlan(Frozen):
    """One run, fully resolved. `identity` hashes everything that decides its outcome, so that a rerun resumes it."""

    comparison: str
    case: str
    arm: str
    repeat: int
    trainer: str
    target: str
    backend: BackendName
    config: dict[str, Any]
    origins: dict[str, str]  # key -> "configs/base.yml:12" or "command line"
    commit: str | None  # of the trainer's checkout; None outside a git checkout
    dirty: bool
    versions: dict[str, str]  # package -> version that the run will import
    environment: dict[str, str]  # what the launcher sets on top of the caller's environment
    argv: tuple[str, ...]
    time_limit_s: int
    run_name: str
    directory: str  # the run's folder in the store
    identity: str  # hex
    ref: str | None = None  # the branch, tag or commit that the user named; `commit` is what it was
    repository: str | None = None  # where `ref` was looked up, unless it is the checkout of this program
    checkout: str | None = None  # the folder with the trainer's source, which the run starts in; None: as installed
    software: tuple[str, ...] = ()  # what this arm was asked to run apart from the other, e.g. "jax==0.11.0"
    aa: bool = False  # one half of a declared A/A control: both arms are meant to be the same
    xpk: Xpk | None = None  # the cluster that runs it, if the backend is xpk


class LocalHandle(Frozen):
    """A run on this machine: a trainer, or a stored log that is played, under a supervisor."""

    backend: Literal["local", "replay"]
    job_name: str
    pid: int  # the supervisor, leader of the run's process group
    created: float  # the supervisor's start in seconds since the epoch: a reused pid is not the same process
    host: str = ""  # where it runs: another machine's numbers mean nothing here
    log: str


class XpkHandle(Frozen):
    """A run on a cluster: a workload that xpk created."""

    backend: Literal["xpk"]
    job_name: str  # of the workload, which is the name of its JobSet
    family: str  # what the names of all attempts of the run begin with
    namespace: str
    context: str | None  # of the kubeconfig; None: the credentials of the pod that the flow runs in
    created: float  # when it was asked for, in seconds since the epoch
    tries: int = 1  # counted up whenever the platform took the run's machines away and it was started again
    extra_argv: tuple[str, ...] = ()  # what the trainer was told beyond the plan's words
    grace_s: int = 60  # from SIGTERM to SIGKILL
    log: str  # where the log is gathered


# Where a launched run lives: enough to attach to it again after the flow died.
type RunHandle = Annotated[LocalHandle | XpkHandle, Field(discriminator="backend")]


class JobCause(Frozen):
    """Why the platform, and not the trainer, ended a job, e.g. type "Preempted"."""

    type: str
    message: str


class JobStatus(Frozen):
    """How a job is doing: waiting for machines, running, or over."""

    state: Literal["queued", "running", "ended"]
    exit_code: int | None = None  # the trainer's own; None before its end, and where nobody knows it
    cause: JobCause | None = None
    queued_s: float | None = None  # until its processes started
    ran_s: float | None = None  # from there to the end


# ---------------------------------------------------------------- what one log says


def _run_number() -> Any:
    """Which of an arm's repeats something is from, counted from 0; left out of what is written where it is the first.

    A reading knows of one log only: whoever puts the runs of an arm together sets it (`tasks/diff/arms.py`).
    """
    return Field(default=0, ge=0, exclude_if=lambda run: run == 0)


class Source(Frozen):
    """Where in a log a value stands: 1-based line, 0-based byte offset, both of the file as it was given."""

    line: int
    offset: int
    run: int = _run_number()


DeathKind = Literal[
    "not_implemented", "device_oom", "host_oom", "preempted", "nan", "shape_mismatch", "storage", "configuration",
    "timeout", "killed", "cut_off", "other",
]  # fmt: skip
DEATH_WORDS: dict[DeathKind, str] = {
    "not_implemented": "not implemented",
    "device_oom": "out of memory on the device",
    "host_oom": "out of memory on the host",
    "preempted": "preempted or evicted",
    "nan": "NaN or infinite loss",
    "shape_mismatch": "shapes or shardings do not fit",
    "storage": "storage failed",
    "configuration": "wrong configuration",
    "timeout": "timed out",
    "killed": "killed",
    "cut_off": "the log is cut off without an end",
    "other": "",
}


# how a run ended: well; by one of the classes above; or the log does not say
RunFate = Literal[
    "finished", "not_implemented", "device_oom", "host_oom", "preempted", "nan", "shape_mismatch", "storage",
    "configuration", "timeout", "killed", "cut_off", "other", "unknown",
]  # fmt: skip


class LogError(Frozen):
    """What ended a run, as its log tells it: an exception, a signal, or the line in which it says why it stops."""

    type: str
    message: str
    line: int
    offset: int
    kind: DeathKind = "other"
    why: str = ""  # why this one and this class, where the log shows more than one exception or none
    detail: str = ""  # the lines below the message, if the error has any
    run: int = _run_number()

    @property
    def words(self) -> str:
        """The class in words; empty for `other`."""
        return DEATH_WORDS[self.kind]

    @property
    def told(self) -> str:
        """The class in words, the type and the message, as every surface tells it."""
        # pydantic's message counts what is wrong, and the next line says it
        said = self.detail.partition("\n")[0].strip() if self.type.endswith("ValidationError") else ""
        return ": ".join(part for part in (self.words, self.type, self.message, said) if part)


class Environment(Frozen):
    """The software and hardware lines of a log; None for what it does not say."""

    jax: str | None = None
    jaxlib: str | None = None
    libtpu: str | None = None  # the build that drives the TPUs, e.g. "cl/878335365, Mar 4 2026"
    backend: str | None = None
    device_kind: str | None = None
    num_devices: int | None = None
    mesh: dict[str, int] | None = None  # axes larger than 1, by name where the log names them
    process_index: int | None = None


class DeviceMemory(Frozen):
    """One `Using (GB) …` line."""

    device: str
    used_gb: float
    limit_gb: float
    percent: float
    line: int
    offset: int


class Memory(Frozen):
    """The compiler's forecast in GB as printed, and the devices' own figures."""

    total_gb: float | None = None
    output_gb: float | None = None
    temp_gb: float | None = None
    argument_gb: float | None = None
    host_temp_gb: float | None = None
    source: Source | None = None
    devices: tuple[DeviceMemory, ...] = ()
    unavailable: str | None = None  # the reason of `Memstats unavailable, error: …`


class ParameterArray(Frozen):
    """One array of the parameter dump."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    logical: str | None = None
    physical: str | None = None


class Parameters(Frozen):
    """The printed parameter count (`printed` is the text behind `count`) and the dump's arrays."""

    count: int | None = None
    printed: str | None = None
    source: Source | None = None
    arrays: tuple[ParameterArray, ...] = ()


class Flops(Frozen):
    """The `Per train step:` block."""

    total_tflops: float | None = None
    weight_pct: float | None = None
    attention_pct: float | None = None


# how far a checkpoint came in its life, as far as the log of one host shows it; `not_visible`: all that this host
# prints is there, and whether the checkpoint was committed only the primary host's log can say
CheckpointState = Literal[
    "announced", "blocking_done", "background_done", "committed", "validated", "restored", "not_visible", "failed"
]


class CheckpointEvent(Frozen):
    """One checkpoint's life as the log tells it.

    `committed` is True only when the log shows the commit, False when it shows that the run ended without one where
    it would have been visible, None when this host would not print it. `validated`: the log shows that every host came
    to the end of the save, which they do only after the commit.
    """

    step: int
    state: CheckpointState = "announced"
    path: str | None = None
    started: str | None = None  # ISO 8601
    blocking_s: float | None = None
    background_s: float | None = None
    total_s: float | None = None  # blocking and background together, where the log gives them as one
    committed: bool | None = None
    validated: bool = False
    validated_hosts: int | None = None  # whose array metadata the primary host found to agree
    arrays: int | None = None
    line: int
    offset: int
    committed_line: int | None = None
    validated_line: int | None = None
    restored_line: int | None = None  # where the same log tells that it was read back
    failed_line: int | None = None
    run: int = _run_number()

    @property
    def told(self) -> str:
        """How far it came, in words, as every surface tells it."""
        words = {
            "announced": "announced", "blocking_done": "blocking part done", "background_done": "background part done",
            "committed": "committed", "validated": "committed, over on all hosts", "restored": "committed, read back",
            "not_visible": "commit not visible from this host", "failed": "failed",
        }[self.state]  # fmt: skip
        if self.state == "restored" and not self.committed:
            words = "read back, so committed"
        if self.committed is False and self.state != "failed":
            words += ", never committed"
        if self.state == "not_visible" and self.validated:
            words += ", over on all hosts"
        return words

    @model_validator(mode="before")
    @classmethod
    def _state_of_the_rest(cls, value: Any) -> Any:
        """Readers that know only some of a checkpoint's life leave the state to what they do know."""
        if not isinstance(value, dict) or "state" in value:
            return value
        known: dict[str, CheckpointState] = {
            "committed": "committed", "background_s": "background_done", "blocking_s": "blocking_done",
        }  # fmt: skip
        return {**value, "state": next((state for key, state in known.items() if value.get(key)), "announced")}


class Restore(Frozen):
    """A checkpoint that was read back into the run: which step, from where, and the lines that tell it."""

    step: int | None  # None: parameters or a state from a path that names no step
    path: str | None = None
    origin: str = ""  # "this run", "persistent", "local", "parameters", "state": where it was told to be, if told
    finished: bool = False  # the log shows its end, or training went on after it
    seconds: float | None = None
    line: int
    offset: int
    finished_line: int | None = None
    run: int = _run_number()

    @property
    def told(self) -> str:
        """What was read back, in words, as every surface tells it."""
        what = f"step {self.step}" if self.step is not None else self.origin or "a checkpoint"
        where = f" from {self.path}" if self.path else ""
        took = f" in {self.seconds:g} s" if self.seconds is not None else ""
        return f"{what}{where}{took}{'' if self.finished else ', not seen to finish'}"


class Stall(Frozen):
    """A step that took far longer than its neighbours, and why, if the log tells."""

    step: int
    seconds: float
    cause: str  # "compile", "restart", "dispatch", "checkpoint", "eval", "profiler" or "unexplained"
    line: int
    offset: int
    run: int = _run_number()


class UnreadLine(Frozen):
    """Something that looks like a step line and was not read, because a number in it may have been cut."""

    line: int
    offset: int
    text: str  # how it begins


class Coverage(Frozen):
    """The receipt of a reading: how much of what looks like data was understood."""

    step_lines_seen: int = 0
    step_lines_parsed: int = 0
    gaps: tuple[tuple[int, int], ...] = ()  # (first, last) missing step
    rewinds: int = 0
    glued_lines: int = 0
    truncated: bool = False
    unknown_keys: tuple[str, ...] = ()
    complete: bool = False
    unwrapped: tuple[str, ...] = ()  # what was taken off around the text, e.g. "gzip", "kubectl prefixes"
    unread: tuple[UnreadLine, ...] = ()  # the first of the step lines that were seen and not parsed


STEP_SCHEMA: dict[str, Any] = {
    "step": pl.Int64,
    "seconds": pl.Float64,
    "tflops_per_device": pl.Float64,
    "tokens_per_s_per_device": pl.Float64,
    "total_weights": pl.Int64,
    "loss": pl.Float64,
    # then every other field of the line, by its own key, and last where it stood:
    "time": pl.String,  # ISO 8601 of the line's prefix, or null
    "line": pl.Int64,
    "offset": pl.Int64,
}
TIMER_SCHEMA: dict[str, Any] = {
    "timer": pl.String,
    "min_ms": pl.Float64,  # over the ranks
    "max_ms": pl.Float64,
    "line": pl.Int64,
    "offset": pl.Int64,
}


class RunReading(Frozen):
    """Everything one log says of one run. The tables are polars frames; `line` and `offset` lead back to the log."""

    name: str
    format: str
    branch: str | None = None
    commit: str | None = None
    exit_code: int | None = None
    fate: RunFate = "unknown"
    started: str | None = None  # ISO 8601
    ended: str | None = None
    error: LogError | None = None
    steps: pl.DataFrame = Field(default_factory=lambda: pl.DataFrame(schema=STEP_SCHEMA))
    evals: tuple[dict[str, Any], ...] = ()
    environment: Environment = Environment()
    memory: Memory = Memory()
    parameters: Parameters = Parameters()
    flops: Flops = Flops()
    checkpoints: tuple[CheckpointEvent, ...] = ()
    restores: tuple[Restore, ...] = ()
    stalls: tuple[Stall, ...] = ()
    config: dict[str, str] = {}
    ranks: tuple[dict[str, Any], ...] = ()
    schedule: tuple[dict[str, Any], ...] = ()
    facts: dict[str, Any] = {}  # what else a dialect prints, by name: value, line, offset
    sources: dict[str, Source] = {}  # where a value of environment, flops or config ("config.<key>") stands, by name
    timers: pl.DataFrame = Field(default_factory=lambda: pl.DataFrame(schema=TIMER_SCHEMA))
    source_file: str | None = None  # e.g. "metric_logger.py:196", which printed the step lines
    span: tuple[int, int] = (0, 0)  # byte range [start, end) of this run's text in the file
    coverage: Coverage = Coverage()

    @model_validator(mode="before")
    @classmethod
    def _fate_of_the_rest(cls, value: Any) -> Any:
        """Readers that do not tell how a run ended leave it to what they do tell: the error, else the exit code."""
        if not isinstance(value, dict) or "fate" in value:
            return value
        error, code, coverage = value.get("error"), value.get("exit_code"), value.get("coverage")
        fate: RunFate = "unknown"
        if code == 0:
            fate = "finished"  # an exception that was survived is no death
        elif isinstance(error, LogError):
            fate = error.kind
        elif code is not None:
            fate = "other"
        elif isinstance(coverage, Coverage) and coverage.truncated:
            fate = "cut_off"
        return {**value, "fate": fate}

    @field_validator("steps", mode="before")
    @classmethod
    def _frame_from_rows(cls, value: Any) -> pl.DataFrame:
        if isinstance(value, pl.DataFrame):
            return value
        rows = rows_from_json(value)
        if not rows:
            return pl.DataFrame(schema=STEP_SCHEMA)
        keys = list(dict.fromkeys(k for row in rows for k in row))
        return pl.DataFrame(rows, schema={k: STEP_SCHEMA.get(k) for k in keys}, infer_schema_length=None)

    @field_validator("timers", mode="before")
    @classmethod
    def _timers_from_rows(cls, value: Any) -> pl.DataFrame:
        if isinstance(value, pl.DataFrame):
            return value
        return pl.DataFrame(rows_from_json(value), schema=TIMER_SCHEMA, infer_schema_length=None)

    @field_serializer("steps", "timers")
    def _rows_of_frame(self, frame: pl.DataFrame) -> list[dict[str, Any]]:
        return [{k: number_to_json(v) for k, v in row.items()} for row in frame.iter_rows(named=True)]


class LogReading(Frozen):
    """A log file: its dialect and the runs in it. `page` holds the rows of the MaxView table around it, if any."""

    format: str
    runs: tuple[RunReading, ...]
    page: dict[str, Any] | None = None


def number_to_json(value: Any) -> Any:
    """NaN and infinities as "nan", "inf", "-inf"; anything else as it is."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return value


def number_from_json(value: Any) -> Any:
    """The inverse of `number_to_json`."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def rows_from_json(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a table, with the numbers that JSON lacks as numbers."""
    return [{key: number_from_json(value) for key, value in row.items()} for row in rows]


# ---------------------------------------------------------------- proof of a checkpoint


class Problem(Frozen):
    """One thing that is wrong with a checkpoint: which check found it, in which file, and what to do."""

    check: Literal["commit", "metadata", "ranges", "manifest", "values"]
    path: str
    message: str


class CheckpointProof(Frozen):
    """What was verified of one checkpoint step, and when. `ok` only if every check that ran found nothing."""

    step: int | None
    path: str
    ok: bool
    checks: tuple[str, ...]  # those that ran, e.g. ("commit", "metadata", "ranges", "manifest")
    problems: tuple[Problem, ...] = ()
    arrays: int = 0
    files: int = 0
    bytes: int = 0
    manifest: str | None = None  # path of the crc32c manifest that was recorded or checked
    tree_digest: str | None = None  # hash over (path, shape, dtype) of every array: equal trees, equal digest
    seconds: float = 0.0
    verified_at: str = ""  # ISO 8601
    run: int = _run_number()


# ---------------------------------------------------------------- what one run did


class RunRecord(Frozen):
    """What a run did. Written once, atomically, when the run is over; its presence means "do not run this again"."""

    plan: RunPlan | None  # None for an ingested log
    arm: str
    label: str  # how pages call it, e.g. "linen · 147168c3a"
    commit: str | None
    log: str  # path of the log
    reading: RunReading
    proofs: tuple[CheckpointProof, ...] = ()
    metrics: pl.DataFrame | None = None  # the trainer's JSON lines, full precision; None if there are none
    program: dict[str, Any] = {}  # the trainer's own proof: program hash, state digests, cross restore

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


# ---------------------------------------------------------------- the comparison


class Evidence(Frozen):
    """What one arm shows for a finding."""

    arm: str
    value: str
    source: Source | None = None


class Finding(Frozen):
    """Something about the two arms that blocks or qualifies the verdict, or is only worth knowing."""

    kind: str  # e.g. "same-commit", "jax-version", "host-process", "incomplete-log", "died"
    effect: Literal["blocks", "qualifies", "note"]
    message: str
    evidence: tuple[Evidence, ...] = ()


class MetricDiff(Frozen):
    """One row of the table. The texts are what surfaces print; they never format numbers themselves."""

    metric: str
    title: str
    unit: str
    better: Better
    rule: str  # how the value was made, e.g. "last step, 3 decimals"
    group: Literal["maxview", "ours"]
    baseline: float | None
    candidate: float | None
    baseline_text: str
    candidate_text: str
    difference: float | None  # candidate − baseline
    difference_text: str
    threshold: float | None
    verdict: Verdict
    reason: str
    threshold_text: str = ""  # e.g. "±2 %", "exact", "equal to 3 decimals"; empty: the row decides nothing
    baseline_source: Source | None = None
    candidate_source: Source | None = None
    # of a metric with noise: candidate / baseline − 1 as the decision has it, with its 95 % interval
    effect: float | None = None
    effect_low: float | None = None
    effect_high: float | None = None
    effect_text: str = ""  # e.g. "-6.6 % (-9.1 … -4.0)"
    p_value: float | None = None  # the chance of such an effect if there is none
    runs_wanted: int | None = None  # runs of each arm, in all, that would probably decide; None: decided, or too many
    cost_text: str = ""  # what the runs that are lacking cost


class Curve(Frozen):
    """One line of a chart."""

    metric: str  # "loss" or "step_time_s"
    arm: str
    run_name: str
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    lines: tuple[int, ...]
    offsets: tuple[int, ...]


class FirstDivergence(Frozen):
    """The first step at which a metric that should be equal is not."""

    metric: str
    step: int
    baseline: str
    candidate: str
    precision: str  # "3 decimals" or "float32, bit for bit"


class Parity(Frozen):
    """How far one deterministic metric agrees, step by step, over every run of both arms."""

    metric: str  # "loss", or the key in the trainer's JSON lines or the log
    steps: int  # that every run has
    runs: tuple[int, int]  # of the baseline and of the candidate
    precision: str  # "printed precision (3 decimals)" or "the last bit (float32)"
    first: FirstDivergence | None = None
    last: int | None = None  # the last step that differs
    different: int = 0  # how many steps differ
    largest_step: int | None = None
    largest_gap: float | None = None  # between the nearest runs of the two arms; inf where a number became none
    trend: str = ""  # whether the gap grows, and by what method that was found


class TimePart(Frozen):
    """What one kind of time cost a run.

    `compute`: the steps, each stall as long as a steady step; `compile`, `dispatch`, `checkpoint`, …: what stalls of
    that cause took beyond it. Outside of the steps: `start` before the first, `end` after the last, `between` them, or
    `outside` where the log does not date its lines.
    """

    part: str
    seconds: float
    share: float  # of the run's total
    steps: int = 0  # how many steps it was found in
    source: Source | None = None  # of the longest of them


class TimeAccount(Frozen):
    """Where the time of one run went; the parts add up to the total."""

    arm: str
    run_name: str
    total_s: float
    parts: tuple[TimePart, ...]


class Floor(Frozen):
    """One floor of the equality proof: same program, same bits, same checkpoint. None: could not be tried."""

    name: Literal["same program", "same bits", "same checkpoint"]
    holds: bool | None
    evidence: str


class ArmSummary(Frozen):
    """One side of the comparison."""

    name: str
    label: str
    branch: str | None
    commit: str | None
    jax: str | None
    exit_code: int | None
    cause_of_death: LogError | None
    started: str | None
    runs: tuple[str, ...]  # run names
    logs: tuple[str, ...]  # paths
    checkpoints: tuple[CheckpointEvent, ...] = ()
    restores: tuple[Restore, ...] = ()  # what its runs went on from
    proofs: tuple[CheckpointProof, ...] = ()
    coverage: Coverage = Coverage()
    spans: tuple[tuple[int, int], ...] = ()  # byte range of each run in its log
    environment: Environment = Environment()  # versions, devices and mesh of the first run


class ComparisonRecord(Frozen):
    """The answer for one case: every surface draws this record and computes nothing."""

    id: str
    comparison: str
    case: str
    target: str
    created: str
    question: str
    baseline: ArmSummary
    candidate: ArmSummary
    verdict: Verdict
    headline: str  # one sentence that says the verdict and why
    findings: tuple[Finding, ...]
    rows: tuple[MetricDiff, ...]
    floors: tuple[Floor, ...] = ()
    divergence: FirstDivergence | None = None
    curves: tuple[Curve, ...] = ()
    stalls: dict[str, tuple[Stall, ...]] = {}  # arm -> stalls
    next_command: str = ""
    parities: tuple[Parity, ...] = ()  # the loss first
    times: tuple[TimeAccount, ...] = ()  # one per run whose log has step times
