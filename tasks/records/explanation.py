"""Records of why two arms differ in program, memory and time, with the source line and commit of each difference."""

from typing import Literal

from configs.frozen import Frozen
from tasks.records.compiled import ProgramDifference
from tasks.records.function import FunctionComparison
from tasks.records.observation import Root, TensorComparison

ProgramAnswer = Literal["same text", "same computation in another order", "differs"]


class CodeLine(Frozen):
    """A line of a trainer's source, and the commit between the two arms that changed it."""

    file: str = ""  # path below site-packages or the arm's folder; empty: the line is unknown
    line: int = 0  # 1-based; 0: unknown
    function: str = ""
    path: str = ""  # full path of the file on the machine where the arm ran
    commit: str = ""  # "1a2b3c4d Fold the scale into the query"; empty if no such commit is known

    @property
    def place(self) -> str:
        """`file:line function`, or `no source line`."""
        return f"{self.file}:{self.line} {self.function}".rstrip() if self.file else "no source line"


class OperationDifference(Frozen):
    """Operations in one function and phase of the trainer that differ between the arms' lowered programs."""

    sentence: str  # summary in one line
    phase: str  # "forward", "recomputed", "backward" or "update"
    baseline: tuple[str, ...] = ()  # operations that only this arm has: "4 × convert bf16 → f32 [4,256,64]"
    candidate: tuple[str, ...] = ()
    baseline_line: CodeLine | None = None  # None: no line of this arm is known
    candidate_line: CodeLine | None = None
    times: tuple[int, int] = (0, 0)  # executions per step, on each side
    flops_share: float = 0.0  # FLOPs of the arm with more of them, as a fraction of the larger program's FLOPs
    bytes_share: float = 0.0  # the same fraction, of the bytes
    first: bool = False  # an operation here has equal inputs in both arms, so a difference begins here


class InputDifference(Frozen):
    """An argument of the step whose type, sharding or donation differs between the arms."""

    name: str  # path in the step's arguments
    baseline: str  # "float32[64,128] (fsdp, -), donated"; empty: this arm has no such argument
    candidate: str


class ProgramExplanation(Frozen):
    """The comparison of the two arms' lowered steps; pairs are (baseline, candidate)."""

    answer: ProgramAnswer
    sentence: str
    hashes: tuple[str, str]  # SHA-256 of each program; independent of the order of operations and of names
    versions: tuple[str, str] = ("", "")  # JAX versions if they differ, else empty
    operations: tuple[OperationDifference, ...] = ()  # differences with `first` come first, then by share
    left_out: int = 0  # number of differences missing from `operations`
    inputs: tuple[InputDifference, ...] = ()
    placements: tuple[str, ...] = ()  # sharding constraints that only one arm has, in words
    compiled: tuple[ProgramDifference, ...] = ()  # differences of the optimised programs


class LiveBuffer(Frozen):
    """Bytes of the arrays from one source location that are live at each arm's memory peak, per device."""

    what: str  # "bf16[4,256,64] of dot_general, backward"
    baseline_bytes: int
    candidate_bytes: int
    baseline_line: CodeLine | None = None  # *_line: None for arguments and arrays without a source line
    candidate_line: CodeLine | None = None

    @property
    def line(self) -> CodeLine | None:
        """The candidate's line, else the baseline's."""
        return self.candidate_line or self.baseline_line


class MemoryExplanation(Frozen):
    """The memory peak per device, and the buffers that differ most, from XLA's buffer assignment."""

    sentence: str
    peak_bytes: tuple[int, int]  # (baseline, candidate)
    buffers: tuple[LiveBuffer, ...] = ()  # the largest difference first


class TimeDifference(Frozen):
    """Seconds per step that each arm spends in one part of the trainer's code, or on the host."""

    what: str  # "dot_general, fusion" or "host: between the steps"
    baseline_s: float  # *_s: seconds per step and device
    candidate_s: float
    baseline_line: CodeLine | None = None  # None for the host, and if no source line is known
    candidate_line: CodeLine | None = None
    sure: bool = True  # exceeds 2 % of a step plus twice the spread between the steps of an arm
    sentence: str

    @property
    def line(self) -> CodeLine | None:
        """The candidate's line, else the baseline's."""
        return self.candidate_line or self.baseline_line


class TimeExplanation(Frozen):
    """The comparison of the two arms' profiles of a few steps; pairs are (baseline, candidate)."""

    sentence: str  # names up to three of the largest sure differences
    steps: tuple[int, int]  # number of profiled steps
    step_s: tuple[float, float]  # median seconds from the start of one step to the next
    differences: tuple[TimeDifference, ...] = ()  # `sure` differences first, then by size


class Explanation(Frozen):
    """The known reasons why two arms differ. A part is None if it was not examined or the examination failed."""

    version: Literal[1] = 1
    headline: str  # the most important reason in a sentence
    function: FunctionComparison | None = None
    tensors: TensorComparison | None = None
    program: ProgramExplanation | None = None
    memory: MemoryExplanation | None = None
    time: TimeExplanation | None = None
    lines: tuple[CodeLine, ...] = ()  # source lines of differences that a commit between the arms changed
    notes: tuple[str, ...] = ()  # failed examinations, one sentence each
    repro: str = ""  # folder of the repro kit, whose files reproduce the difference; empty: none was written
    seconds: float = 0.0  # duration of the examination

    @property
    def root(self) -> Root | None:
        """The place where the arms' functions begin to differ; None if it was not found."""
        return (self.tensors.first or self.tensors.roots[0]) if self.tensors and self.tensors.roots else None

    def line_of_cost(self, *, memory: bool) -> CodeLine | None:
        """Return the line that explains another peak of memory, or another time; None: unknown.

        A line that a commit between the arms changed; else the line with the largest difference.
        """
        rows: tuple[LiveBuffer | TimeDifference, ...] = self.time.differences if self.time else ()
        if memory:
            rows = self.memory.buffers if self.memory else ()
        return next((row.line for row in rows[:1]), None) if not self.lines or not rows else self.lines[0]

    @property
    def commit_of_root(self) -> str:
        """The commit that changed the line of `root`, with its subject; empty if unknown."""
        root = self.root
        commits = [line.commit for line in self.lines if root and (line.file, line.line) == (root.file, root.line)]
        return commits[0] if commits else ""
