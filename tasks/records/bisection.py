"""A bisection: the commits or package versions in order, the evidence, and the first one with the difference."""

from itertools import pairwise
from typing import Literal

from configs.schema import Frozen
from tasks.records.explanation import ProgramExplanation
from tasks.records.metric_diff import Verdict
from tasks.records.plan import Commit

Mark = Literal["good", "bad", "between", "unknown", "skipped", ""]  # "": not trained
Outcome = Literal["found", "range", "no difference", "ledger"]


class LedgerEntry(Frozen):
    """The compiled training step of one commit; None for unknown values."""

    program: str | None = None  # SHA-256 of the lowered step without names and locations
    error: str = ""  # why there is no program
    memory_bytes: int | None = None  # of one device, by the compiler
    collective_bytes: int | None = None  # of one step
    recomputed_flops: int | None = None  # matrix products that the backward pass computes again
    flops: int | None = None  # of all matrix products of one step


class BisectedPoint(Frozen):
    """One point between good and bad: a commit, or a version of a package."""

    commit: Commit
    version: str = ""  # the requirement, if packages are bisected
    source: str = ""  # digest of the trainer's source; equal digests train alike
    ledger: LedgerEntry = LedgerEntry()
    ruled_out: str = ""  # why this point cannot be the culprit; empty if it can
    mark: Mark = ""
    why: str = ""  # the verdict behind the mark, or why the point was skipped
    runs: int = 0
    level: float | None = None  # of a time, relative to good: 0.08 is 8 % more; None: other metric, or not trained
    low: float | None = None  # ends of its 99 % interval
    high: float | None = None
    chance: float = 0.0  # the posterior that this point is the culprit


class Corner(Frozen):
    """One effect in the four corners (old and new code, each with old and new packages), as a natural logarithm."""

    name: Literal["code", "packages", "interaction"]
    verdict: Verdict
    text: str  # "+5.1 % (+4.0 … +6.2)", or the difference in words
    estimate: float | None = None
    low: float | None = None
    high: float | None = None


class Bisection(Frozen):
    """The answer to one bisection; every surface draws this record and computes nothing."""

    id: str
    comparison: str
    case: str
    target: str
    created: str  # ISO 8601
    good: str  # as the user named it
    bad: str
    metric: str  # id of the bisected row; empty if none differed
    title: str  # the row's name for display
    outcome: Outcome
    headline: str
    points: tuple[BisectedPoint, ...]  # good first, bad last
    culprit: int | None = None  # index of a point
    suspects: tuple[int, ...] = ()  # indices, if the result is a range
    effect: str = ""  # of the culprit against the point before it, with its interval
    notes: tuple[str, ...] = ()  # a second change, a revert, merges
    corners: tuple[Corner, ...] = ()
    diffstat: str = ""  # git's, of the culprit
    message: str = ""  # the culprit's commit message
    programs: str = ""  # how sizes of the culprit's program differ from the one before it
    program: ProgramExplanation | None = None  # which operations differ
    trained: int = 0  # number of trained points
    runs: int = 0
    seconds: float = 0.0  # of all runs, by their logs
    next_command: str = ""

    @property
    def other_programs(self) -> int:
        """The number of points with another program than the last one before them that compiles."""
        return sum(
            after != before for before, after in pairwise(p.ledger.program for p in self.points if p.ledger.program)
        )

    @property
    def ruled_out(self) -> int:
        """The number of points after good that were not run and are not suspects."""
        numbered = enumerate(self.points[1:], start=1)
        return sum(not point.runs and number not in self.suspects for number, point in numbered)
