"""What a compiler made of one arm's training step: the file `compile.json` that a compile leaves."""

from typing import Literal

from configs.schema import Frozen

FILE = "compile.json"
LOWERED, OPTIMISED = "lowered.mlir.gz", "optimised.hlo.gz"  # beside it: StableHLO with locations, and XLA's last text


class CompileError(Frozen):
    """Why it does not compile, in the compiler's or the trainer's own words."""

    type: str  # of the exception; "HbmOverflow": it does not fit
    message: str


class ProgramMemory(Frozen):
    """Bytes of one device, and of the host for it, while the step runs; what is aliased is counted in two places."""

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
    """One array that the step is given."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    sharding: str  # the mesh axes that each of its axes is split over, and the memory if that is the host's
    bytes_per_device: int


class Fingerprints(Frozen):
    """SHA-256 of a program's text without its names and locations: equal texts are the same program."""

    lowered: str
    optimised: str | None  # None: it does not compile


class CompiledProgram(Frozen):
    """One compile. Written whole, at its end; `ok` False and an `error` where the step does not compile or fit."""

    version: Literal[1] = 1
    topology: str  # "v6e:4x8"
    devices: int
    hbm_bytes: int  # that each device has
    ok: bool
    error: CompileError | None = None
    memory: ProgramMemory | None = None
    arrays: tuple[InputArray, ...] = ()  # all inputs, those that weigh most first
    lower_seconds: float | None = None
    compile_seconds: float | None = None
    compile_cpu_seconds: float | None = None  # of all threads
    software: dict[str, str] = {}  # package -> version
    fingerprints: Fingerprints | None = None  # None: it could not even be lowered
    compiler_key: str | None = None  # of all that the compiler was handed; None: it keeps nothing for others
    taken_from: str | None = None  # the run that compiled the same before: what the compiler said is from there
