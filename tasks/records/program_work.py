"""What a compiled program does in one step, and how two of them differ."""

from configs.schema import Frozen
from tasks.records.compiled import ProgramMemory
from tasks.records.source import Source


class Work(Frozen):
    """What a part of a program does in one step of one device. A loop's body counts as often as it runs."""

    cycles: int = 0  # the compiler's own estimate; it has none for collectives and for some kernels
    flops: int = 0  # of matrix products
    collective_bytes: int = 0  # of whole arrays; those of an all-reduce twice, for it is a scatter and a gather
    executions: int = 0  # of its instructions


class CollectiveSum(Frozen):
    """The collectives of one kind, inside of loops or outside."""

    kind: str
    in_loop: bool
    instructions: int
    executions: int
    bytes: int


class ProgramWork(Frozen):
    """What a whole program does in one step of one device."""

    work: Work
    collectives: tuple[CollectiveSum, ...]
    kernels: dict[str, int] = {}  # target of a custom call -> executions
    operations: dict[str, int] = {}  # opcode -> instructions
    aliases: int = 0  # outputs that are written in place of an input
    unknown_loops: int = 0  # whose trips could not be read; they count once
    lines: int = 0


class ProgramDifference(Frozen):
    """One thing in which two programs differ, and what it costs."""

    what: str  # "all-gather in a loop"
    where: str  # "decoder/layers/mlp/wi_0, backward"
    baseline: str  # in words; "none" where it is not there
    candidate: str
    share: float  # of the larger program's cycles, collective bytes or memory, whichever is most; below 0: it saves
    cost: str  # "+12.3 % of the cycles"
    baseline_source: Source | None = None
    candidate_source: Source | None = None


class HeavyArray(Frozen):
    """An input that weighs, on both sides."""

    path: str
    baseline: str  # "f32[2048,16,128] (fsdp, -, -) 16.0 MiB"; empty: it has none
    candidate: str


class ProgramComparison(Frozen):
    """Two compiled programs side by side, beside the rows of a comparison."""

    topology: str
    devices: int
    hbm_bytes: int
    unfit: tuple[str, ...] = ()  # arms of which the compiler says that they cannot run there
    differences: tuple[ProgramDifference, ...]  # the largest first
    left_out: int = 0  # that are smaller
    arrays: tuple[HeavyArray, ...] = ()  # the heaviest first
    baseline: ProgramWork | None = None
    candidate: ProgramWork | None = None
    baseline_memory: ProgramMemory | None = None
    candidate_memory: ProgramMemory | None = None
