"""Records of the experiment on both arms' programs in float64: do they compute one function, and who rounds more."""

from typing import Literal

from configs.frozen import Frozen

FunctionAnswer = Literal["same", "another", "not evaluated"]
Quantity = Literal["loss", "gradient norm", "gradients", "parameters"]


class ResultGap(Frozen):
    """How far one result of the step differs between the arms, relative to its size."""

    state: str  # "step 0", "late"
    role: str  # of an argument of the step, or "metric"
    meaning: str  # canonical path
    float64: float  # both steps in float64
    as_run: float | None  # both steps as the trainer runs them; None if a value is not finite

    @property
    def sentence(self) -> str:
        """The result with both differences, in words."""
        as_run = "" if self.as_run is None else f", by {show_relative(self.as_run)} as run"
        return f"{name_result(self.role, self.meaning)} differs by {show_relative(self.float64)} in float64{as_run}"


class RoundingError(Frozen):
    """The relative distance of each arm's step as run to its own step in float64."""

    quantity: str  # a `Quantity`, or the name of one gradient
    baseline: float
    candidate: float

    @property
    def ratio(self) -> float:
        """candidate ÷ baseline; 1 if neither rounds."""
        return self.candidate / self.baseline if self.baseline else (1.0 if not self.candidate else float("inf"))


class RoundingBand(Frozen):
    """How far the losses part by rounding alone: the baseline's steps from weights changed in their last bits."""

    steps: int  # number of chained steps
    loss: float  # the baseline's last loss in this chain
    rms: float  # root mean square over the steps of perturbed − baseline, in units of the loss
    arms: float  # the same of candidate − baseline


class FunctionPower(Frozen):
    """The smallest changes that would have been found: shares by which every update of the weights is longer."""

    float64: float  # by both steps in float64
    loss: float | None = None  # by the losses alone; None if there is no band of rounding


class FunctionComparison(Frozen):
    """Whether the training steps of two arms compute one function, whatever they round."""

    answer: FunctionAnswer
    sentence: str  # the answer with its figure; why, if it was not evaluated
    claim: str = ""  # of another function: the answer alone
    results: int = 0  # number of compared floating-point results of a step
    states: tuple[str, ...] = ()  # names of the compared steps
    swept: tuple[str, ...] = ()  # names of the states that no run reached, at which both steps were compared, too
    is_beyond_run: bool = False  # whether the steps differ only at such a state
    doubts: tuple[str, ...] = ()  # why "same" is likely and not sure, a sentence each
    gap: float = 0.0  # the largest relative difference in float64
    as_run: float | None = None  # the largest relative difference as run
    type: str = ""  # the narrowest floating-point type of the programs: "bf16"
    gaps: tuple[ResultGap, ...] = ()  # the largest ones, at the first state that has any beyond the limit
    differing: tuple[str, ...] = ()  # names of the states at which a result differs beyond the limit
    rounding: tuple[RoundingError, ...] = ()  # one per quantity
    worst_gradient: RoundingError | None = None  # the gradient whose rounding error grew most
    band: RoundingBand | None = None
    power: FunctionPower | None = None  # None if no weight moves
    unmatched: tuple[str, ...] = ()  # arguments without a counterpart, "baseline: …" or "candidate: …"
    not_evaluated: tuple[str, ...] = ()  # why "same" cannot be said although the results agree, a sentence each
    evaluated: str = ""  # the functions of the loops that were evaluated, and the others; empty: the steps alone
    stands_for: str = ""  # how the evaluated programs differ from the runs': another model or device
    is_until_decided: bool = False  # whether it ended at the first steps, whose results differ
    devices: int = 1
    seconds: float = 0.0
    peak_gib: float = 0.0


def name_result(role: str, meaning: str) -> str:
    """Return the name of a result for people: `gradient of decoder.mlp.wo (first moment)`."""
    kind, _, path = meaning.partition(".")
    if role == "optimizer" and path:
        return {"mu": f"the gradient of {path}", "nu": f"the squared gradient of {path}"}.get(kind, f"{kind} of {path}")
    if role == "parameter":
        return f"the weight {meaning}"
    return f"result {meaning}" if meaning.isdigit() else meaning


def show_relative(value: float) -> str:
    """Return a relative difference as text: `1.9 %`, `4e-05`."""
    return f"{value:.1%}".replace("%", " %") if value >= 1e-3 else f"{value:.1g}" if value else "0"
