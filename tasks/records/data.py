"""The record of the experiment on two arms' batches: are they equal, and if not, does the step see a difference?"""

from typing import Literal

from configs.frozen import Frozen

DataKind = Literal["equal", "reordered", "other"]  # reordered: the same rows in another order


class DataComparison(Frozen):
    """The batches of both arms' recorded steps, and the baseline's step in float64 with both where they differ."""

    steps: int  # number of compared steps
    kind: DataKind
    first: int | None = None  # the first step whose batches differ
    named: str = ""  # its arrays that differ: "rate 0.25 → 0.125", "inputs, targets"; empty: not told
    evaluated: tuple[int, ...] = ()  # steps at which the baseline's step ran with both batches
    gap: float | None = None  # largest relative difference of its results; None: not evaluated
    are_equal: bool | None = None  # whether its loss and its new state are equal up to rounding; None: not evaluated
    problem: str = ""  # why it was not evaluated; empty: it was, or the batches are equal
    starts_equal: bool = False  # whether all arrays that the first steps are given are known to be equal, bit for bit
