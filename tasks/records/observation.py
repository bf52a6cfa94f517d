"""What was recorded of one arm's training step, and where the tensors of two such steps part."""

from typing import Literal

from configs.schema import Frozen

# files in an observation's folder
FILE = "observation.json"
PROGRAM, OPTIMISED = "step.mlir.gz", "step.hlo.gz"  # StableHLO with locations; XLA's optimised program
ARGUMENTS, TENSORS = "arguments.npz", "tensors.jsonl.gz"
LOG, PROFILE = "observation.log", "profile"

Role = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state", "data"]
Pass = Literal["forward", "recomputed", "backward"]
RootKind = Literal["argument", "constant", "operation", "result", "extra"]


class ObservedArray(Frozen):
    """One argument or result of the step."""

    name: str  # as the trainer's step has it: "state['model']['decoder']['w'].value"
    role: Role
    meaning: str  # its path without what Linen or NNX puts around it: "decoder.w"; equal on both sides
    shape: tuple[int, ...]
    dtype: str
    sharding: str = ""  # "(fsdp, -)"; "-" for each axis that no mesh axis splits, empty where it has none
    bytes_per_device: int = 0
    donated: bool = False
    digest: str | None = None  # of its bits; None: other processes hold parts of it
    norm: float | None = None  # of its values as float64
    mean: float | None = None
    largest: float | None = None
    own_digest: str | None = None  # before it was replaced by the other arm's; None: it was not


class Observation(Frozen):
    """One call of one arm's training step, written by the arm's own process. `step` None: no step was found."""

    version: Literal[1] = 1
    arm: str = ""
    step: str | None = None  # the name of the jitted function
    call: int = 0  # of that function, counted from 0
    processes: int = 1
    devices: int = 0
    platform: str = ""
    software: dict[str, str] = {}  # package -> version: jax, jaxlib, flax, …
    arguments: tuple[ObservedArray, ...] = ()
    results: tuple[ObservedArray, ...] = ()  # of the trainer's own compiled step
    tensors: int = 0  # rows of TENSORS; 0: not evaluated
    program: bool = False  # whether PROGRAM is there; OPTIMISED where the compiler gives its text
    profile: bool = False  # whether PROFILE is there
    seconds: float = 0.0  # spent on looking, beside the trainer's own work
    peak_bytes: int = 0  # the process's largest resident memory
    notes: tuple[str, ...] = ()  # what could not be done, each one sentence


class Root(Frozen):
    """A place where two steps part although all that is read there is equal; equal places are counted, not repeated."""

    kind: RootKind
    direction: Pass | None = None  # None: an argument of the step
    file: str = ""  # "maxtext/layers/normalizations.py"; below site-packages or the arm's folder
    line: int = 0
    function: str = ""
    path: str = ""  # the same file in full, in the baseline's process
    candidate_place: str = ""  # "file:line function" in the candidate, where it is another
    operation: str = ""  # "add"; of an argument its role
    type: str = ""  # "float32[4,256,1]"
    layer: str = ""  # "layer 1 of 4" where the program loops over layers or names them
    stack: str = ""  # JAX's name stack
    after: str = ""  # the tensor that the trainer itself named last before it
    count: int = 1  # places like it: layers, parameters
    baseline: str = ""  # values or the constant, in words
    candidate: str = ""
    sentence: str  # all of it in one line


class OnlyHere(Frozen):
    """Operations of one source line that only one arm has. Never a root by themselves."""

    arm: Literal["baseline", "candidate"]
    operation: str
    type: str
    place: str  # "file:line function"
    direction: Pass
    count: int


class TensorComparison(Frozen):
    """Two observed steps, tensor by tensor. `sentence` answers in one line."""

    sentence: str
    first: Root | None = None  # the earliest root inside the program; None: no tensor differs from equal ones
    roots: tuple[Root, ...] = ()  # arguments first, then in the order of the program
    equal_up_to: str = ""  # the named tensor before the first that differs
    tensors: tuple[int, int] = (0, 0)
    paired: int = 0
    equal: int = 0  # of those paired, bit for bit
    consequences: int = 0  # of those paired, different only because of what they read
    only: tuple[OnlyHere, ...] = ()
    different_arguments: tuple[str, ...] = ()  # meanings
    replaced_arguments: int = 0  # of the candidate, taken from the baseline
    unmatched_arguments: tuple[str, ...] = ()  # names without a counterpart, "baseline: …" or "candidate: …"
    different_results: tuple[str, ...] = ()  # of the compiled steps, although no tensor here differs: meanings
    notes: tuple[str, ...] = ()
