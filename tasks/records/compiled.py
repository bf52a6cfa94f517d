"""The compiled training step of one arm: the file `compile.json` of a compile."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.source import Source

FILE = "compile.json"
LOWERED, OPTIMISED = "lowered.mlir.gz", "optimised.hlo.gz"  # beside it: StableHLO with locations, and XLA's last text


class StepCompile(Frozen):
    """One compilation of the training step during a run, as JAX reports it."""

    signature: tuple[str, ...]  # the type of each argument, e.g. "float32[4,3]" in a log, "4x3xf32" in a program's text
    source: Source | None = None  # in the log; None for a program that JAX wrote to a file


class CompileError(Frozen):
    """The error of the compiler or trainer."""

    type: str  # of the exception; "HbmOverflow": it does not fit
    message: str


class ProgramMemory(Frozen):
    """Bytes of one device, and of the host for it, while the step runs; aliased bytes are counted twice."""

    argument: int
    output: int
    temp: int
    alias: int
    host_argument: int
    host_output: int
    host_temp: int
    generated_code: int
    total: int  # of the device: argument + output + temp - alias


class InputArray(Frozen):
    """One input array of the step."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    sharding: str  # the mesh axes that split each axis; also the memory kind if it is the host's
    bytes_per_device: int


class Fingerprints(Frozen):
    """SHA-256 of a program's text without names and locations; equal digests mean the same program."""

    lowered: str
    optimised: str | None  # None if it does not compile


class CompiledProgram(Frozen):
    """One compile, written when it ends; `ok` is False with an `error` if the step does not compile or fit."""

    version: Literal[1] = 1
    topology: str  # "v6e:4x8"
    devices: int
    hbm_bytes: int  # of each device
    ok: bool
    error: CompileError | None = None
    memory: ProgramMemory | None = None
    arrays: tuple[InputArray, ...] = ()  # all inputs, the largest first
    lower_seconds: float | None = None
    compile_seconds: float | None = None
    compile_cpu_seconds: float | None = None  # of all threads
    software: dict[str, str] = {}  # package -> version
    fingerprints: Fingerprints | None = None  # None if lowering failed
    compiler_key: str | None = None  # digest of the compiler's inputs; None: not reusable
    taken_from: str | None = None  # the earlier run with the same inputs, whose compiler output is reused
