"""Records of compiled training steps: the result of a compile, a program's work in one step, two programs compared."""

from typing import Literal

from configs.frozen import Frozen
from tasks.records.shared_fields import Source

FILE = "compile.json"  # content: a `CompiledProgram`
LOWERED, OPTIMISED = "lowered.mlir.gz", "optimised.hlo.gz"  # StableHLO with locations; XLA's optimised HLO


class CompileError(Frozen):
    """The error that ended a compile."""

    type: str  # class of the exception; "HbmOverflow": the program does not fit into device memory
    message: str


class ProgramMemory(Frozen):
    """Memory of the running step in bytes per device, by XLA. Aliased bytes are in `argument` and in `output`."""

    argument: int
    output: int
    temp: int  # intermediate values
    alias: int  # outputs that reuse an argument's memory
    host_argument: int  # host_*: in the host's memory
    host_output: int
    host_temp: int
    generated_code: int  # the program itself
    total: int  # in the device's memory: argument + output + temp - alias


class InputArray(Frozen):
    """One input array of the step."""

    path: str  # name of the argument in the step's arguments
    shape: tuple[int, ...]  # of the whole array
    dtype: str
    sharding: str  # mesh axes that split each dimension; with the memory kind if the array is in the host's memory
    bytes_per_device: int


class Fingerprints(Frozen):
    """SHA-256 of a program's two texts without names and locations; equal digests mean equal programs."""

    lowered: str  # of the StableHLO
    optimised: str | None  # of the optimised HLO; None if the program does not compile


class CompiledProgram(Frozen):
    """The result of one compile, written when it ends. `ok`: the step compiles and fits into the device's memory."""

    version: Literal[1] = 1
    topology: str  # "v6e:4x8"
    devices: int  # number of devices
    hbm_bytes: int  # memory per device, in bytes
    ok: bool
    error: CompileError | None = None  # None if `ok`
    memory: ProgramMemory | None = None  # None if it did not compile
    arrays: tuple[InputArray, ...] = ()  # all inputs of the step, the largest first
    lower_seconds: float | None = None  # None if lowering failed
    compile_seconds: float | None = None  # None if the compile failed
    compile_cpu_seconds: float | None = None  # CPU time of all threads
    software: dict[str, str] = {}  # package -> version
    fingerprints: Fingerprints | None = None  # None if lowering failed
    compiler_key: str | None = None  # digest of the compiler's inputs; None: the compile cannot be reused
    taken_from: str | None = None  # earlier run with the same inputs, whose output was reused; None: compiled


class Work(Frozen):
    """The work of a part of a program, per step and device. A loop's body is counted once per iteration."""

    cycles: int = 0  # the compiler's estimate, without collectives and some kernels
    flops: int = 0  # floating-point operations of matrix products
    collective_bytes: int = 0  # full size of the arrays; doubled for an all-reduce, which scatters and gathers


class CollectiveSum(Frozen):
    """All collectives of one kind that are inside loops, or all that are outside, per step and device."""

    kind: str  # e.g. "all-gather"
    in_loop: bool
    executions: int  # number of executions
    bytes: int  # as `Work.collective_bytes`


class ProgramWork(Frozen):
    """The work of a whole program, per step and device."""

    work: Work
    collectives: tuple[CollectiveSum, ...]
    kernels: dict[str, int] = {}  # target of a custom call -> number of executions
    aliases: int = 0  # number of outputs that reuse an input's memory
    unknown_loops: int = 0  # number of loops with unknown trip count; their bodies are counted once


class ProgramDifference(Frozen):
    """One difference of two programs, and its cost in cycles, collective bytes or memory."""

    what: str  # "all-gather in a loop"
    where: str  # "decoder/layers/mlp/wi_0, backward"
    baseline: str  # in words; "none" if this program lacks it
    candidate: str
    share: float  # largest change of cycles, bytes or memory, as a fraction of the larger program; negative: a decrease
    cost: str  # "+12.3 % of the cycles"
    baseline_source: Source | None = None  # line in the optimised program; None: in no line, or in several
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
    hbm_bytes: int  # memory per device, in bytes; 0: unknown
    unfit: tuple[str, ...] = ()  # arms whose program does not compile, or does not fit into `hbm_bytes`
    differences: tuple[ProgramDifference, ...]  # the largest first
    left_out: int = 0  # number of smaller differences that are omitted
    arrays: tuple[HeavyArray, ...] = ()  # the largest first
    baseline: ProgramWork | None = None  # None if the program's text was not analysed
    candidate: ProgramWork | None = None
