"""The types of a bisection's search: its line of points, the judge of their runs, its limits, its actions and result.

A point is a commit or a package version. The first point is good, the last one is bad: these two are the ends. The
culprit is the point that changed the bisected metric.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from configs.frozen import Frozen
from tasks.records.compared_case import Decision, Verdict

HALVES = 2  # the comparison of the ends and that of the culprit each get half of the false-alarm probability
WORSE: tuple[Verdict, ...] = ("regressed", "changed")
MAX_RUNS_OF_POINT = 12  # limit of runs of one point; if 12 are not enough, the machine is too noisy
MAX_RUNS = 100  # limit of runs of a search if the user gave neither a budget nor a number of runs


class Judge(Protocol):
    """The finished runs of each point (given by its index), and verdicts on two points."""

    @property
    def judges_time(self) -> bool:
        """Whether the metric is a time. Only times differ between equal runs."""

    def runs(self, point: int) -> int:
        """Return the number of the point's runs."""

    def failed(self, point: int) -> str:
        """Return why the point cannot be judged; empty if it can."""

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Decision:
        """Return the verdict on two points, with the effect and its interval as the reason if they are known.

        runs: use only this many first runs of each point; None: all. shares: divisor of the false-alarm probability.
        """

    def are_apart(self, before: int, after: int) -> bool:
        """Return whether each run of `after` is slower than each run of `before`, if a time is judged."""


class Line(Frozen):
    """The points from good (first) to bad (last), with the facts that need no run."""

    weights: tuple[float, ...]  # each point's prior weight of being the culprit; 0: ruled out
    # Point → the point whose runs stand for it: the first of consecutive points that train alike. Points with good's
    # source have good (0). The last points, if they train like bad, have bad.
    alike: tuple[int, ...]
    ruled_out: Mapping[int, str] = {}  # point → why it needs no run

    @property
    def last(self) -> int:
        """The index of the bad end."""
        return len(self.weights) - 1


class SearchLimits(Frozen):
    """The limits of a search: runs and seconds."""

    max_end_runs: int = 3  # limit of runs of each end if the user gave no limit; doubled if a time is bisected
    budget_s: float | None = None  # no run starts after this many seconds of runs
    most_runs: int | None = None  # limit of runs of all points together

    @property
    def are_given(self) -> bool:
        """Whether the user limited the runs or the time."""
        return self.budget_s is not None or self.most_runs is not None

    def allow(self, runs: int, spent_s: float) -> bool:
        """Return whether this total number of runs is allowed after `spent_s` seconds of runs."""
        most = self.most_runs or (MAX_RUNS if self.budget_s is None else None)
        return (self.budget_s is None or spent_s < self.budget_s) and (most is None or runs <= most)


class Train(Frozen):
    """One more run of each of these points, in this order."""

    points: tuple[int, ...]
    why: str  # the reason, for messages


class Finish(Frozen):
    """The result of a search. The outcome "ledger" means that nothing was trained."""

    outcome: Literal["found", "range", "no difference", "ledger"]
    why: str  # the reason; empty for "found"
    culprit: int | None = None  # index of the point, if it was found
    before: int | None = None  # index of the point with which the culprit was compared, if it was found
    suspects: tuple[int, ...] = ()  # indices of the remaining points of a range
    pair_verdict: Decision | None = None  # verdict on the culprit against the point before it, or on the ends
    notes: tuple[str, ...] = ()  # sentences about other changes; `{3}` stands for the name of point 3
