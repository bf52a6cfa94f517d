"""Records of an observed training step with all its tensors, and of the comparison of two such steps.

An arm is one of the two compared versions, the baseline or the candidate.
"""

from typing import Literal

from configs.frozen import Frozen

# Names of files in an observation's folder.
FILE = "observation.json"
PROGRAM, OPTIMISED = "step.mlir.gz", "step.hlo.gz"  # StableHLO with locations; XLA's optimised HLO
ARGUMENTS, TENSORS = "arguments.npz", "tensors.jsonl.gz"
LOG, PROFILE = "observation.log", "profile"

Role = Literal["parameter", "optimizer", "counter", "random numbers", "quantisation", "other state", "data"]
Pass = Literal["forward", "recomputed", "backward"]
RootKind = Literal["argument", "key", "constant", "operation", "result", "extra"]


class ObservedArray(Frozen):
    """One argument or result of the step."""

    name: str  # path in the step's arguments: "state['model']['decoder']['w'].value"
    role: Role
    meaning: str  # path without the parts that Linen or NNX add: "decoder.w"; equal in both arms
    shape: tuple[int, ...]
    dtype: str
    sharding: str = ""  # "(fsdp, -)": mesh axis per dimension, "-" if not split; empty: not sharded
    bytes_per_device: int = 0  # size of a device's part
    donated: bool = False  # the step may reuse the argument's memory
    digest: str | None = None  # of the bits; None if parts of the array are in other processes
    norm: float | None = None  # Euclidean norm of the values, in float64
    mean: float | None = None
    own_digest: str | None = None  # digest of the array that the other arm's array has replaced; None: not replaced

    @property
    def kind(self) -> str:
        """The type and shape, `float32[8,16]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class LoopRecord(Frozen):
    """The training loop between the recorded calls of its step: its other functions, and who else writes the state."""

    calls: int  # recorded calls of the step
    others: dict[str, int] = {}  # other jitted function -> its calls between them, the most frequent first
    writers: dict[str, int] = {}  # function -> arrays of a state that it writes, which the step is given or it carries
    outside: int = 0  # arrays in the step's state that no jitted function returned
    beside: int = 0  # arrays with the shapes of weights that are made anew outside of jitted functions
    unrecorded: int = 0  # those of them that no operation of JAX made
    programs: int = 1  # distinct programs that the step ran
    changed_at: tuple[int, ...] = ()  # calls that ran another program than the first one, from 0
    # (call, place of its first argument of another type than in the first call, or -1, both types), once per program
    retyped: tuple[tuple[int, int, str, str], ...] = ()
    digests: dict[str, str] = {}  # other function -> digest of its program; empty: it has several programs
    callbacks: dict[str, int] = {}  # function of Python that the step calls for a value -> number of places
    # (path, line, function, file) of each line that jits new function objects in the loop, and their number
    jits: tuple[tuple[str, int, str, str, int], ...] = ()


class CycleRecord(Frozen):
    """What the training loop computes from one update of the weights to the next, as one function."""

    functions: dict[str, int] = {}  # jitted function -> its results; those on which a later state depends
    eager: int = 0  # operations outside of jitted functions, of those
    period: int = 1  # calls of the step in a cycle
    calls: int = 0  # recorded cycles
    not_evaluated: tuple[str, ...] = ()  # jitted functions on which no later state depends
    gaps: tuple[str, ...] = ()  # arrays of the state that the host computes, a sentence each
    doubts: tuple[str, ...] = ()  # what only the recorded cycles show, a sentence each
    is_written: bool = False  # whether it is more than a call of the step, and recorded in the folder CYCLE
    problem: str = ""  # why there is none

    @property
    def is_of_step_alone(self) -> bool:
        """Whether it only repeats the step."""
        return len(self.functions) == 1 and not self.eager

    @property
    def sentence(self) -> str:
        """The evaluated functions, and the others, in words."""
        named = [
            f"`{name}` ({results} {'result' if results == 1 else 'results'})"
            for name, results in self.functions.items()
        ]
        named += [f"{self.eager} operations outside of jitted functions"] if self.eager else []
        *most, last = named or ["nothing"]
        times = f", {self.period} calls of the step in a cycle" if self.period > 1 else ""
        others = ", ".join(f"`{name}`" for name in self.not_evaluated)
        listed = f"{', '.join(most)} and {last}" if most else last
        return f"evaluated: {listed}{times}" + (f"; not evaluated: {others}" if others else "")


class Observation(Frozen):
    """The first call of an arm's training step, recorded in the arm's process."""

    version: Literal[1] = 1
    arm: str = ""
    step: str | None = None  # name of the jitted function; None if no step was found
    devices: int = 0  # number of devices
    platform: str = ""  # JAX's platform, e.g. "tpu"
    software: dict[str, str] = {}  # package -> version: jax, jaxlib, flax, …
    arguments: tuple[ObservedArray, ...] = ()
    results: tuple[ObservedArray, ...] = ()  # of the step as compiled by the trainer
    tensors: int = 0  # number of rows in the file TENSORS; 0: the tensors were not evaluated
    kept: tuple[int, ...] | None = None  # indices of the arguments that the program reads; None: unknown
    # for each argument of the second call the index of the first call's result that it is; None: no second call
    feeds: tuple[int | None, ...] | None = None
    loop: LoopRecord | None = None  # None: the step's program did not really run
    cycle: CycleRecord | None = None  # None: the loop was not recorded
    # processor seconds of a trace of the step and its lowering: first call, repeats; empty: not measured
    front_end: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()  # failures, one sentence each


class Root(Frozen):
    """The start of a difference: an argument, or an operation with equal inputs that differs or is in one arm only."""

    kind: RootKind
    direction: Pass | None = None  # pass of the operation; None for an argument of the step
    file: str = ""  # path below site-packages or the arm's folder: "maxtext/layers/normalizations.py"
    line: int = 0  # 1-based; 0: unknown
    function: str = ""
    path: str = ""  # full path of the same file in the baseline's process
    candidate_place: str = ""  # "file:line function" in the candidate, if different
    operation: str = ""  # "add"; for an argument, its role
    type: str = ""  # "float32[4,256,1]"
    layer: str = ""  # "layer 1 of 4"; empty if the program has no loop over layers and no layer names
    stack: str = ""  # JAX's name stack
    after: str = ""  # last named tensor before the operation; for an argument, its meaning
    made_by: str = ""  # of a result of a shard_map on several devices: its collective, "psum at train.py:27 step"
    called_at: str = ""  # "file:line function" of the changed line that calls unchanged code with the operation
    count: int = 1  # number of differences that this root stands for, e.g. one per layer or parameter
    baseline: str = ""  # the differing values, or the constant, in words
    candidate: str = ""
    sentence: str  # summary in one line

    @property
    def cause(self) -> str:
        """The file and line to look at: of a result of a shard_map, those of its collective; else of a changed call."""
        other = self.made_by.partition(" at ")[2] or self.called_at
        return other.partition(" ")[0] or f"{self.file}:{self.line}"


class OnlyHere(Frozen):
    """Operations of one source line that one arm has more often than the other arm.

    Operations are counted here, whatever their values. A `Root` is a place where values begin to differ.
    """

    arm: Literal["baseline", "candidate"]
    operation: str
    type: str
    place: str  # "file:line function"
    direction: Pass
    count: int  # number of operations beyond the other arm's


class TensorComparison(Frozen):
    """The comparison of two observed steps, tensor by tensor."""

    sentence: str  # the result in one line
    first: Root | None = None  # first root that is not an argument; None if there is none
    roots: tuple[Root, ...] = ()  # arguments first, then in program order
    equal_up_to: str = ""  # last named tensor before the first root; empty: none
    tensors: tuple[int, int] = (0, 0)  # number of tensors (baseline, candidate)
    equal: int = 0  # number of tensors that are equal in both arms, up to the rounding of float64
    consequences: int = 0  # number of tensors that differ only because their inputs differ
    only: tuple[OnlyHere, ...] = ()
    different_arguments: tuple[str, ...] = ()  # `ObservedArray.meaning` of each argument that differs
    replaced_arguments: int = 0  # number of the candidate's arguments that were replaced with the baseline's arguments
    unmatched_arguments: tuple[str, ...] = ()  # names without a counterpart, "baseline: …" or "candidate: …"
    # `ObservedArray.meaning` of each result that differs between the compiled steps; empty if any tensor differs
    different_results: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
