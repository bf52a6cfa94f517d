"""Records of the work of a compiled program in one step, and of the comparison of two programs."""

from configs.schema import Frozen
from tasks.records.older_fields import ignore_older
from tasks.records.source import Source


class Work(Frozen):
    """The work of a part of a program, per step and device. A loop's body is counted once per iteration."""

    cycles: int = 0  # the compiler's estimate, without collectives and some kernels
    flops: int = 0  # floating-point operations of matrix products
    collective_bytes: int = 0  # full size of the arrays; doubled for an all-reduce, which scatters and gathers
    _older = ignore_older("executions")


class CollectiveSum(Frozen):
    """All collectives of one kind that are inside loops, or all that are outside, per step and device."""

    kind: str  # e.g. "all-gather"
    in_loop: bool
    executions: int  # number of executions
    bytes: int  # as `Work.collective_bytes`
    _older = ignore_older("instructions")


class ProgramWork(Frozen):
    """The work of a whole program, per step and device."""

    work: Work
    collectives: tuple[CollectiveSum, ...]
    kernels: dict[str, int] = {}  # target of a custom call -> number of executions
    aliases: int = 0  # number of outputs that reuse an input's memory
    unknown_loops: int = 0  # number of loops with unknown trip count; their bodies are counted once
    _older = ignore_older("operations", "lines")


class ProgramDifference(Frozen):
    """One difference of two programs, and its cost in cycles, collective bytes or memory."""

    what: str  # "all-gather in a loop"
    where: str  # "decoder/layers/mlp/wi_0, backward"
    baseline: str  # in words; "none" if this program lacks it
    candidate: str
    share: float  # largest change of cycles, bytes or memory, as a fraction of the larger program; negative: less
    cost: str  # "+12.3 % of the cycles"
    baseline_source: Source | None = None  # line in the optimised program; None: not one line
    candidate_source: Source | None = None


class HeavyArray(Frozen):
    """A large input of the step, as each of the two programs takes it."""

    path: str  # name of the argument
    baseline: str  # "f32[2048,16,128] (fsdp, -, -) 16.0 MiB"; empty: no such input
    candidate: str


class ProgramComparison(Frozen):
    """The comparison of two compiled programs."""

    topology: str
    devices: int
    hbm_bytes: int  # memory per device
    unfit: tuple[str, ...] = ()  # arms whose program does not compile or fit there
    differences: tuple[ProgramDifference, ...]  # the largest first
    left_out: int = 0  # number of smaller differences that are omitted
    arrays: tuple[HeavyArray, ...] = ()  # the largest first
    baseline: ProgramWork | None = None  # None if the program's text was not analysed
    candidate: ProgramWork | None = None
    _older = ignore_older("baseline_memory", "candidate_memory")
