"""Records of a bisection: the search for the culprit, the first commit or package version that changed a metric.

The ledger lists the compiled training step of each commit.
"""

from itertools import pairwise
from typing import Literal

from configs.frozen import Frozen
from tasks.records.compared_case import Verdict
from tasks.records.explanation import ProgramExplanation
from tasks.records.plan import Commit

Mark = Literal["good", "bad", "between", "unknown", "skipped", ""]  # between: differs from both ends; "": no run
Outcome = Literal["found", "range", "no difference", "ledger"]  # ledger: nothing was trained


class LedgerEntry(Frozen):
    """The compiled training step of one commit; None for unknown values."""

    program: str | None = None  # SHA-256 of the lowered StableHLO without names and locations
    error: str = ""  # why the compile failed; empty if it did not, or if the trainer has no separate compile
    memory_bytes: int | None = None  # memory per device, as estimated by the compiler
    collective_bytes: int | None = None  # bytes in one step's collectives
    recomputed_flops: int | None = None  # FLOPs of one step's matrix products that the backward pass recomputes
    flops: int | None = None  # FLOPs of all matrix products in one step


class BisectedPoint(Frozen):
    """One point between good and bad: a commit, or a version of a package."""

    commit: Commit  # if packages are bisected: the bad end's commit, at every point
    version: str = ""  # requirement such as jax==0.9.1; empty if commits are bisected
    source: str = ""  # digest of the trainer's source: commits with equal digests train alike; empty for versions
    ledger: LedgerEntry = LedgerEntry()
    ruled_out: str = ""  # why this point cannot be the culprit; empty if it can
    mark: Mark = ""
    why: str = ""  # the verdict behind the mark, or why the point was skipped
    runs: int = 0  # number of this point's runs
    level: float | None = None  # time relative to good: 0.08 is 8 % more; None for other metrics and without runs
    low: float | None = None  # low, high: ends of the 99 % interval of `level`
    high: float | None = None

    @property
    def name(self) -> str:
        """The displayed name: the version, or the short hash of the commit."""
        return self.version or self.commit.sha[:9]


class Bisection(Frozen):
    """The result of the bisection of one case. Pages and the terminal display this record and compute nothing."""

    id: str
    comparison: str
    case: str
    target: str
    created: str  # ISO 8601
    good: str  # the user's name of the good end; the version, if packages are bisected
    bad: str
    metric: str  # name of the bisected metric; the step time if the ends differ in no metric
    title: str  # the row's name for display
    outcome: Outcome
    headline: str  # the answer as one sentence
    points: tuple[BisectedPoint, ...]  # good first, bad last
    culprit: int | None = None  # index of a point
    verdict: Verdict = "unknown"  # on the culprit; "unknown" without one
    suspects: tuple[int, ...] = ()  # indices of the remaining points, if the outcome is "range"
    effect: str = ""  # the culprit's change of the metric, with its interval, as text; empty without a culprit
    notes: tuple[str, ...] = ()  # sentences about other changes, reverts and merges
    diffstat: str = ""  # of the culprit's commit, by git
    message: str = ""  # the culprit's commit message
    programs: str = ""  # difference in size between the culprit's program and the program before it
    program: ProgramExplanation | None = None  # the operations that differ between these programs, if known
    trained: int = 0  # number of points with runs
    runs: int = 0  # number of runs of all points
    seconds: float = 0.0  # total duration of all runs, from their logs
    next_command: str = ""  # shell command to continue with; empty if there is none

    @property
    def other_programs(self) -> int:
        """The number of points whose program differs from the last known program of the earlier points."""
        return sum(
            after != before for before, after in pairwise(p.ledger.program for p in self.points if p.ledger.program)
        )

    @property
    def ruled_out(self) -> int:
        """The number of points after good that have no runs and are no suspects."""
        numbered = enumerate(self.points[1:], start=1)
        return sum(not point.runs and number not in self.suspects for number, point in numbered)
