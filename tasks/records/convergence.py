"""The record of a comparison of convergence: several seeds of a reference against runs of a candidate."""

from typing import Literal

from configs.frozen import Frozen
from tasks.records.compared_case import Verdict

MIN_SEEDS = 3  # of a side; fewer do not show how much seeds scatter

type Shape = Literal["late start", "spike", "divergence", "stopped early"]


class LossCurve(Frozen):
    """The losses of one run: evaluations, or the rows of its steps if the run has none."""

    name: str
    positions: tuple[float, ...]  # samples or steps trained, ascending, above 0
    losses: tuple[float, ...]  # NaN and infinities included
    reached: bool = True  # whether the run ended as planned; False if it was stopped or died
    unit: str = "samples"  # of `positions`, or "steps"


class Band(Frozen):
    """What another seed of the reference would show at a position: mean and 99 % prediction interval."""

    positions: tuple[float, ...]
    means: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


class ConvergenceRow(Frozen):
    """One judged figure."""

    metric: Literal["final_loss", "to_target"]
    title: str
    verdict: Verdict
    reason: str
    baseline: float | None  # mean over the seeds
    candidate: float | None
    effect: float | None  # candidate ÷ baseline − 1
    low: float | None  # ends of the 99 % interval of the effect
    high: float | None
    seen: float | None  # least effect that as many seeds would find 4 times in 5
    seeds_wanted: int | None = None  # seeds of each side that would probably decide
    each: tuple[tuple[float | None, ...], tuple[float | None, ...]] = ((), ())  # values of the runs of both sides


class Oddity(Frozen):
    """A run of the candidate that leaves the band of the reference's seeds."""

    run: str
    shape: Shape
    position: float  # where it leaves the band, or ends
    text: str


class ConvergenceRecord(Frozen):
    """The result, its evidence and the curves it was found in."""

    verdict: Verdict
    headline: str
    rows: tuple[ConvergenceRow, ...]
    band: Band
    oddities: tuple[Oddity, ...]
    reference: tuple[LossCurve, ...]
    candidate: tuple[LossCurve, ...]
    target: float | None  # loss; None if neither log nor user names one
    notes: tuple[str, ...] = ()
    subject: str = ""  # what was compared, in words: the case and both arms; empty for given logs
