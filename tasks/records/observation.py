"""The record of one arm's training step, and the comparison of two such records tensor by tensor."""

from typing import Literal

from configs.schema import Frozen
from tasks.records.older_fields import ignore_older

# files in an observation's folder
FILE = "observation.json"
PROGRAM, OPTIMISED = "step.mlir.gz", "step.hlo.gz"  # StableHLO with locations; XLA's optimised program
ARGUMENTS, TENSORS = "arguments.npz", "tensors.jsonl.gz"
LOG, PROFILE = "observation.log", "profile"

Role = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state", "data"]
Pass = Literal["forward", "recomputed", "backward"]
RootKind = Literal["argument", "key", "constant", "operation", "result", "extra"]


class ObservedArray(Frozen):
    """One argument or result of the step."""

    name: str  # in the trainer's step: "state['model']['decoder']['w'].value"
    role: Role
    meaning: str  # its path without Linen's or NNX's additions: "decoder.w"; equal on both sides
    shape: tuple[int, ...]
    dtype: str
    sharding: str = ""  # "(fsdp, -)"; "-" for each unsplit axis; empty without sharding
    bytes_per_device: int = 0
    donated: bool = False
    digest: str | None = None  # of its bits; None: other processes hold parts of it
    norm: float | None = None  # of its values as float64
    mean: float | None = None
    own_digest: str | None = None  # before the other arm's array replaced it; None if it did not
    _older = ignore_older("largest")


class Observation(Frozen):
    """The first call of one arm's training step, written by the arm's process. `step` is None if no step was found."""

    version: Literal[1] = 1
    arm: str = ""
    step: str | None = None  # the name of the jitted function
    devices: int = 0
    platform: str = ""
    software: dict[str, str] = {}  # package -> version: jax, jaxlib, flax, …
    arguments: tuple[ObservedArray, ...] = ()
    results: tuple[ObservedArray, ...] = ()  # of the trainer's own compiled step
    tensors: int = 0  # rows of TENSORS; 0: not evaluated
    notes: tuple[str, ...] = ()  # failed parts, one sentence each
    _older = ignore_older("call", "processes", "program", "profile", "seconds", "peak_bytes")


class Root(Frozen):
    """An operation whose results differ although its inputs are equal; equal places are counted, not repeated."""

    kind: RootKind
    direction: Pass | None = None  # None for an argument of the step
    file: str = ""  # "maxtext/layers/normalizations.py"; below site-packages or the arm's folder
    line: int = 0
    function: str = ""
    path: str = ""  # the same file in full, in the baseline's process
    candidate_place: str = ""  # "file:line function" in the candidate, if different
    operation: str = ""  # "add"; for an argument, its role
    type: str = ""  # "float32[4,256,1]"
    layer: str = ""  # "layer 1 of 4" if the program loops over layers or names them
    stack: str = ""  # JAX's name stack
    after: str = ""  # the last tensor before it that the trainer named
    count: int = 1  # equal places: layers, parameters
    baseline: str = ""  # values or the constant, in words
    candidate: str = ""
    sentence: str  # summary in one line


class OnlyHere(Frozen):
    """Operations of one source line that only one arm has; never a root."""

    arm: Literal["baseline", "candidate"]
    operation: str
    type: str
    place: str  # "file:line function"
    direction: Pass
    count: int


class TensorComparison(Frozen):
    """The comparison of two observed steps, tensor by tensor. `sentence`: the result in one line."""

    sentence: str
    first: Root | None = None  # the earliest root inside the program, if any
    roots: tuple[Root, ...] = ()  # arguments first, then in program order
    equal_up_to: str = ""  # the named tensor before the first that differs
    tensors: tuple[int, int] = (0, 0)
    equal: int = 0  # pairs equal bit for bit
    consequences: int = 0  # pairs that differ only because their inputs do
    only: tuple[OnlyHere, ...] = ()
    different_arguments: tuple[str, ...] = ()  # as `ObservedArray.meaning`
    replaced_arguments: int = 0  # arguments of the candidate that the baseline's replaced
    unmatched_arguments: tuple[str, ...] = ()  # names without a counterpart, "baseline: …" or "candidate: …"
    different_results: tuple[str, ...] = ()  # the same, of results: the compiled steps differ, no tensor does
    notes: tuple[str, ...] = ()
    _older = ignore_older("paired")
