"""Why two arms differ: their programs, memory and time, each difference with its source line and its commit."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.observation import TensorComparison
from tasks.records.program_work import ProgramDifference

ProgramAnswer = Literal["same text", "same computation in another order", "differs"]


class CodeLine(Frozen):
    """A line of a trainer's source, and the commit between the two refs that touched it."""

    file: str  # below site-packages or the arm's folder
    line: int
    function: str = ""
    path: str = ""  # in full, where it ran
    commit: str = ""  # "1a2b3c4d Fold the scale into the query"; empty: none of those between touched it


class OperationDifference(Frozen):
    """What one function of the trainer computes in one arm and not in the other."""

    sentence: str
    phase: str  # "forward", "recomputed", "backward" or "update"
    baseline: tuple[str, ...] = ()  # "4 × convert bf16 → f32 [4,256,64]"
    candidate: tuple[str, ...] = ()
    baseline_line: CodeLine | None = None
    candidate_line: CodeLine | None = None
    times: tuple[int, int] = (0, 0)  # a step, on each side
    flops_share: float = 0.0  # of the larger program's, of both sides together
    bytes_share: float = 0.0
    first: bool = False  # all that it reads is computed alike on both sides


class InputDifference(Frozen):
    """An argument of the step that lies or looks otherwise."""

    name: str
    baseline: str  # "float32[64,128] (fsdp, -), donated"; empty: it has none
    candidate: str
    bytes_per_device: tuple[int, int] = (0, 0)


class ProgramExplanation(Frozen):
    """Two lowered steps. The hashes are of the computation, whatever its order; equal ones are one program."""

    answer: ProgramAnswer
    sentence: str
    hashes: tuple[str, str]
    versions: tuple[str, str] = ("", "")  # of JAX, where they differ
    operations: tuple[OperationDifference, ...] = ()  # those first that everything else follows from, then by share
    left_out: int = 0
    inputs: tuple[InputDifference, ...] = ()
    placements: tuple[str, ...] = ()  # sharding constraints that only one has
    compiled: tuple[ProgramDifference, ...] = ()  # donation, recomputing, collectives of the optimised programs


class LiveBuffer(Frozen):
    """Arrays that live at the peak of an arm's memory, of one source line and type."""

    what: str  # "bf16[4,256,64] of dot_general, backward"
    baseline_bytes: int
    candidate_bytes: int
    baseline_line: CodeLine | None = None
    candidate_line: CodeLine | None = None


class MemoryExplanation(Frozen):
    """The bytes of one device at the peak, and the buffers that differ most, from the compiler's buffer assignment."""

    sentence: str
    peak_bytes: tuple[int, int]
    buffers: tuple[LiveBuffer, ...] = ()


class TimeDifference(Frozen):
    """Seconds of a step that one source line, or the host, takes on each side."""

    what: str  # "dot_general, fusion" or "host: between the steps"
    baseline_s: float
    candidate_s: float
    baseline_line: CodeLine | None = None
    candidate_line: CodeLine | None = None
    sure: bool = True  # more than 1 % of a step, and than what the steps of one arm differ by
    sentence: str


class TimeExplanation(Frozen):
    """Two profiles of a few steps."""

    sentence: str  # the three largest differences
    steps: tuple[int, int]
    step_s: tuple[float, float]  # the median of the profiled steps, from begin to begin
    operations_s: tuple[float, float]  # in operations, a step
    differences: tuple[TimeDifference, ...] = ()  # the largest first


class Explanation(Frozen):
    """Everything that is known of why two arms differ. What could not be found out is in `notes`."""

    version: Literal[1] = 1
    headline: str
    tensors: TensorComparison | None = None
    program: ProgramExplanation | None = None
    memory: MemoryExplanation | None = None
    time: TimeExplanation | None = None
    lines: tuple[CodeLine, ...] = ()  # of all of the above, those that a commit between the arms touched
    notes: tuple[str, ...] = ()
    repro: str = ""  # the folder of the repro kit
    seconds: float = 0.0  # that finding it out took
