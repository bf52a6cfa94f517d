"""Records of compiled training steps: `CompiledProgram` is the content of `compile.json`, which an arm that only
compiles writes; `StepCompile` is a compile in a run's log."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source

FILE = "compile.json"
LOWERED, OPTIMISED = "lowered.mlir.gz", "optimised.hlo.gz"  # StableHLO with locations; XLA's optimised HLO


class StepCompile(Frozen):
    """One compilation of the training step during a run, as JAX reports it."""

    signature: tuple[str, ...]  # type per argument: "float32[4,3]" from a log, "4x3xf32" from a program's text
    source: Source | None = None  # position in the log; None if JAX wrote the program to a file


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
    sharding: str  # mesh axes that split each dimension; with the memory kind if that is the host's
    bytes_per_device: int


class Fingerprints(Frozen):
    """SHA-256 of a program's two texts without names and locations; equal digests mean equal programs."""

    lowered: str  # of the StableHLO
    optimised: str | None  # of the optimised HLO; None if the program does not compile


class CompiledProgram(Frozen):
    """The result of one compile, written at its end. If the step does not compile or fit, `ok` is False."""

    version: Literal[1] = 1
    topology: str  # "v6e:4x8"
    devices: int  # number of devices
    hbm_bytes: int  # memory per device
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
