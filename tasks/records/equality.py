"""How far two arms are equal: step by step, and floor by floor."""

from typing import Literal

from configs.schema import Frozen


class FirstDivergence(Frozen):
    """The first step at which a metric that should be equal is not."""

    metric: str
    step: int
    baseline: str
    candidate: str
    precision: str  # "3 decimals" or "float32, bit for bit"


class Parity(Frozen):
    """How far one deterministic metric agrees, step by step, over every run of both arms."""

    metric: str  # "loss", or the key in the trainer's JSON lines or the log
    steps: int  # that every run has
    runs: tuple[int, int]  # of the baseline and of the candidate
    precision: str  # "printed precision (3 decimals)" or "the last bit (float32)"
    first: FirstDivergence | None = None
    last: int | None = None  # the last step that differs
    different: int = 0  # how many steps differ
    largest_step: int | None = None
    largest_gap: float | None = None  # between the nearest runs of the two arms; inf where a number became none


class CrossRestore(Frozen):
    """What came of one arm's trainer restoring the other's checkpoint and training on. `holds` None: not tried."""

    source: str  # the run whose checkpoint it was
    restored_step: int | None = None
    steps: int = 0  # trained after it
    holds: bool | None = None  # every loss after it is the other run's
    evidence: str


class Floor(Frozen):
    """One floor of the equality proof: same program, same bits, same checkpoint. None: could not be tried."""

    name: Literal["same program", "same bits", "same checkpoint"]
    holds: bool | None
    evidence: str
    same_text: bool = True  # of a program; False: one computation in another order, which may be rounded differently
