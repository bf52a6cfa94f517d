"""The equality of two arms, by step and by floor."""

from typing import Literal

from configs.schema import Frozen


class FirstDivergence(Frozen):
    """The first step at which a metric that should be equal differs."""

    metric: str
    step: int
    baseline: str
    candidate: str
    precision: str  # "3 decimals" or "float32, bit for bit"


class Parity(Frozen):
    """The step-by-step agreement of one deterministic metric over all runs of both arms."""

    metric: str  # "loss", or the key in the trainer's JSON lines or the log
    steps: int  # common to all runs
    runs: tuple[int, int]  # of the baseline and of the candidate
    precision: str  # "printed precision (3 decimals)" or "the last bit (float32)"
    first: FirstDivergence | None = None
    last: int | None = None  # the last step that differs
    different: int = 0  # number of differing steps
    largest_step: int | None = None
    largest_gap: float | None = None  # between the nearest runs of the two arms; inf if a value became NaN or infinite


class CrossRestore(Frozen):
    """The result of one arm restoring the other's checkpoint and training on. `holds` is None if not tried."""

    source: str  # the run that saved the checkpoint
    restored_step: int | None = None
    steps: int = 0  # trained after it
    holds: bool | None = None  # whether every later loss equals the other run's
    evidence: str


class Floor(Frozen):
    """One floor of the equality proof: same program, same bits, same checkpoint. None: not tried."""

    name: Literal["same program", "same bits", "same checkpoint"]
    holds: bool | None
    evidence: str
    same_text: bool = True  # of a program; False: the same computation in another order, which may round differently
