"""Explains why two arms differ in program, memory and time; each difference with its source line and commit."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.observation import TensorComparison
from tasks.records.older_fields import ignore_older
from tasks.records.program_work import ProgramDifference

ProgramAnswer = Literal["same text", "same computation in another order", "differs"]


class CodeLine(Frozen):
    """A line of a trainer's source, and the commit between the two refs that touched it."""

    file: str = ""  # below site-packages or the arm's folder; empty: no known line
    line: int = 0
    function: str = ""
    path: str = ""  # in full, where it ran
    commit: str = ""  # "1a2b3c4d Fold the scale into the query"; empty if no commit between the refs touched it

    @property
    def place(self) -> str:
        """The line in words: `file:line function`."""
        return f"{self.file}:{self.line} {self.function}".rstrip() if self.file else "no source line"


class OperationDifference(Frozen):
    """Operations of one function of the trainer that only one arm has."""

    sentence: str
    phase: str  # "forward", "recomputed", "backward" or "update"
    baseline: tuple[str, ...] = ()  # "4 × convert bf16 → f32 [4,256,64]"
    candidate: tuple[str, ...] = ()
    baseline_line: CodeLine | None = None
    candidate_line: CodeLine | None = None
    times: tuple[int, int] = (0, 0)  # executions per step, on each side
    flops_share: float = 0.0  # both sides' FLOPs relative to the larger program's
    bytes_share: float = 0.0
    first: bool = False  # all its inputs are equal on both sides


class InputDifference(Frozen):
    """An argument of the step with another sharding or type."""

    name: str
    baseline: str  # "float32[64,128] (fsdp, -), donated"; empty: it has none
    candidate: str
    _older = ignore_older("bytes_per_device")


class ProgramExplanation(Frozen):
    """Two lowered steps. The hashes ignore the order of operations; equal hashes mean one program."""

    answer: ProgramAnswer
    sentence: str
    hashes: tuple[str, str]
    versions: tuple[str, str] = ("", "")  # of JAX, if they differ
    operations: tuple[OperationDifference, ...] = ()  # root differences first, then by share
    left_out: int = 0
    inputs: tuple[InputDifference, ...] = ()
    placements: tuple[str, ...] = ()  # sharding constraints of one side only
    compiled: tuple[ProgramDifference, ...] = ()  # donation, recomputation, collectives of the optimised programs


class LiveBuffer(Frozen):
    """Arrays live at an arm's memory peak, of one source line and type."""

    what: str  # "bf16[4,256,64] of dot_general, backward"
    baseline_bytes: int
    candidate_bytes: int
    baseline_line: CodeLine | None = None
    candidate_line: CodeLine | None = None


class MemoryExplanation(Frozen):
    """The peak bytes of one device, and the buffers that differ most, from the compiler's buffer assignment."""

    sentence: str
    peak_bytes: tuple[int, int]
    buffers: tuple[LiveBuffer, ...] = ()


class TimeDifference(Frozen):
    """Seconds per step of one source line, or of the host, on each side."""

    what: str  # "dot_general, fusion" or "host: between the steps"
    baseline_s: float
    candidate_s: float
    baseline_line: CodeLine | None = None
    candidate_line: CodeLine | None = None
    sure: bool = True  # exceeds 1 % of a step and the spread between steps of one arm
    sentence: str


class TimeExplanation(Frozen):
    """The difference of two profiles of a few steps."""

    sentence: str  # the three largest differences
    steps: tuple[int, int]
    step_s: tuple[float, float]  # median of the profiled steps, from begin to begin
    differences: tuple[TimeDifference, ...] = ()  # the largest first
    _older = ignore_older("operations_s")


class Explanation(Frozen):
    """The known reasons why two arms differ; `notes` lists failed examinations."""

    version: Literal[1] = 1
    headline: str
    tensors: TensorComparison | None = None
    program: ProgramExplanation | None = None
    memory: MemoryExplanation | None = None
    time: TimeExplanation | None = None
    lines: tuple[CodeLine, ...] = ()  # lines of all differences that a commit between the arms touched
    notes: tuple[str, ...] = ()
    repro: str = ""  # the folder of the repro kit
    seconds: float = 0.0  # time of the examination
