"""The work of a compiled program in one step, and the difference of two programs."""

from configs.schema import Frozen
from tasks.records.older_fields import ignore_older
from tasks.records.source import Source


class Work(Frozen):
    """The work of a part of a program in one step of one device. A loop's body counts once per iteration."""

    cycles: int = 0  # estimated by the compiler, without collectives and some kernels
    flops: int = 0  # of matrix products
    collective_bytes: int = 0  # of full arrays; twice for an all-reduce, which is a scatter and a gather
    _older = ignore_older("executions")


class CollectiveSum(Frozen):
    """The collectives of one kind, inside or outside of loops."""

    kind: str
    in_loop: bool
    executions: int
    bytes: int
    _older = ignore_older("instructions")


class ProgramWork(Frozen):
    """The work of a program in one step of one device."""

    work: Work
    collectives: tuple[CollectiveSum, ...]
    kernels: dict[str, int] = {}  # target of a custom call -> executions
    aliases: int = 0  # outputs that reuse an input's memory
    unknown_loops: int = 0  # loops with an unknown trip count; their bodies count once
    _older = ignore_older("operations", "lines")


class ProgramDifference(Frozen):
    """One difference of two programs, and its cost."""

    what: str  # "all-gather in a loop"
    where: str  # "decoder/layers/mlp/wi_0, backward"
    baseline: str  # in words; "none" if missing
    candidate: str
    share: float  # of the larger program's cycles, collective bytes or memory, the maximum; negative: a saving
    cost: str  # "+12.3 % of the cycles"
    baseline_source: Source | None = None
    candidate_source: Source | None = None


class HeavyArray(Frozen):
    """A large input, on both sides."""

    path: str
    baseline: str  # "f32[2048,16,128] (fsdp, -, -) 16.0 MiB"; empty: it has none
    candidate: str


class ProgramComparison(Frozen):
    """The comparison of two compiled programs."""

    topology: str
    devices: int
    hbm_bytes: int
    unfit: tuple[str, ...] = ()  # arms that cannot run there, by the compiler
    differences: tuple[ProgramDifference, ...]  # the largest first
    left_out: int = 0  # number of smaller differences
    arrays: tuple[HeavyArray, ...] = ()  # the heaviest first
    baseline: ProgramWork | None = None
    candidate: ProgramWork | None = None
    _older = ignore_older("baseline_memory", "candidate_memory")
