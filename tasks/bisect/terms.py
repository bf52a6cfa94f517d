"""The types of a search: its points, the judge of two points, its limits and its result."""

from collections.abc import Sequence
from typing import Literal, Protocol

from configs.schema import Frozen
from tasks.bisect.posterior import Observation
from tasks.diff.noise import Noise
from tasks.records import Verdict

ENDS = 2  # the ends take one half of the chance of a false alarm, the named point the other
WORSE: tuple[Verdict, ...] = ("regressed", "changed")
MOST_OF_POINT = 12  # runs of one point: beyond that the machine is too noisy for this difference
MOST_RUNS = 100  # of a line where neither a budget nor a number of runs is given


class Rated(Frozen):
    """The verdict on the bisected metric between two points."""

    verdict: Verdict
    text: str = ""  # the effect with its interval, or the reason
    wanted: int | None = None  # runs of each point that would probably decide
    cost: str = ""  # of these runs
    effect: float | None = None  # of a metric that varies: 0.08 is 8 % more, and the ends of its interval
    low: float | None = None
    high: float | None = None


class Judge(Protocol):
    """The finished runs, and the verdict rule applied to them."""

    @property
    def noise(self) -> Noise:
        """The noise of a pair of equal runs, in the unit of the observations."""

    @property
    def varies(self) -> bool:
        """Whether the metric differs between equal runs: a time does; a loss, a death, a checkpoint do not."""

    def runs(self, point: int) -> int:
        """Return the number of the point's runs."""

    def failed(self, point: int) -> str:
        """Return why the point cannot be judged; empty if it can."""

    def observe(self, point: int) -> Sequence[Observation]:
        """Return the levels of the point's runs, for a metric that varies."""

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Rated:
        """Return the verdict on two points. runs: number of each to use; shares: divisor of the false-alarm chance."""


class Line(Frozen):
    """The points from good (first) to bad (last), with the facts that need no run."""

    weights: tuple[float, ...]  # prior of each point; 0: ruled out
    # the point whose runs stand for this one: the first of its neighbours that train alike; good for all points that
    # train like good, and bad for the last points that train like bad
    alike: tuple[int, ...]

    @property
    def last(self) -> int:
        """The bad end."""
        return len(self.weights) - 1


class Limits(Frozen):
    """The limits of a search: runs and seconds."""

    ends: int = 3  # runs of each end if neither of the others is given; a time may take twice as many
    budget_s: float | None = None
    most_runs: int | None = None

    @property
    def are_given(self) -> bool:
        """Whether the user limited the runs or the time."""
        return self.budget_s is not None or self.most_runs is not None

    def allow(self, runs: int, spent_s: float) -> bool:
        """Return whether the search may have this number of runs, after it has spent these seconds."""
        most = self.most_runs or (MOST_RUNS if self.budget_s is None else None)
        return (self.budget_s is None or spent_s < self.budget_s) and (most is None or runs <= most)


class Train(Frozen):
    """One more run of each of these points, in this order."""

    points: tuple[int, ...]
    why: str


class Finish(Frozen):
    """The search is over."""

    outcome: Literal["found", "range", "no difference"]
    why: str
    culprit: int | None = None
    before: int | None = None  # the point that the culprit was compared with
    suspects: tuple[int, ...] = ()
    rated: Rated | None = None  # of the culprit against the point before it, or of the ends
    notes: tuple[str, ...] = ()
