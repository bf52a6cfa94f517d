"""Records of whether two arms are equal: per step, per level of proof (`Floor`), and after a restore."""

from typing import Literal

from configs.schema import Frozen


class FirstDivergence(Frozen):
    """The first step at which a metric that should be equal differs."""

    metric: str  # as in `Parity`
    step: int
    baseline: str  # the value, as text
    candidate: str
    precision: str  # "3 decimals" or "float32, bit for bit"


class Parity(Frozen):
    """The step-by-step agreement of one deterministic metric over all runs of both arms."""

    metric: str  # "loss", or the key in the trainer's JSON lines or the log
    steps: int  # number of steps that all runs have
    runs: tuple[int, int]  # number of runs of the baseline and of the candidate
    precision: str  # "printed precision (3 decimals)" or "the last bit (float32)"
    first: FirstDivergence | None = None  # this and the following fields are None if no step differs
    last: int | None = None  # the last step that differs
    different: int = 0  # number of differing steps
    largest_step: int | None = None  # the step with `largest_gap`
    largest_gap: float | None = None  # distance between the nearest runs of the two arms; inf if one is NaN or infinite


class CrossRestore(Frozen):
    """The result of a test in which one arm restores the other's checkpoint and continues training."""

    source: str  # name of the run that saved the checkpoint
    restored_step: int | None = None  # None if nothing was restored
    steps: int = 0  # number of steps trained after the restore
    holds: bool | None = None  # whether all those losses equal the saving run's; None: not tried
    evidence: str


class Floor(Frozen):
    """One level of the proof that two arms are equal."""

    name: Literal["same program", "same bits", "same checkpoint"]
    holds: bool | None  # None: not tried
    evidence: str
    same_text: bool = True  # False: equal programs with operations in another order, which may round differently
