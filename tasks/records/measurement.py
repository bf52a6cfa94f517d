"""Records of the measurements that a page accumulates: experiments on two versions, and what the page told after each.

An arm is one of the two compared versions.
"""

from typing import Literal

from configs.frozen import Frozen
from tasks.records.data import DataComparison
from tasks.records.function import FunctionComparison
from tasks.records.host_times import HostTimes
from tasks.records.loop_times import LoopTimes
from tasks.records.program_times import ProgramTimes

MeasuredKind = Literal["function", "time", "loop", "host", "data"]


class Measurement(Frozen):
    """One measurement on both programs. At most the field of its kind is set; none: both arms have one program."""

    kind: MeasuredKind
    made: str  # ISO 8601
    function: FunctionComparison | None = None
    time: ProgramTimes | None = None
    loop: LoopTimes | None = None
    host: HostTimes | None = None
    data: DataComparison | None = None

    @property
    def problem(self) -> str:
        """Why nothing was measured; empty if something was."""
        if self.function is not None:
            return self.function.sentence if self.function.answer == "not evaluated" else ""
        found = self.time or self.loop or self.host or self.data
        return found.problem if found is not None else ""


class Measurements(Frozen):
    """The evidence of the experiments on two arms: of each kind the measurement that counts; None: not tried."""

    function: FunctionComparison | None = None  # whether both steps compute one function
    turns: ProgramTimes | None = None  # step times of both programs in turns
    loops: LoopTimes | None = None  # both loops in turns
    host: HostTimes | None = None  # both host loops without their program
    data: DataComparison | None = None  # the batches of both recorded steps


NOTHING = Measurements()


class EvidenceLine(Frozen):
    """A measurement, or the runs, as the page lists it."""

    made: str  # ISO 8601; empty: unknown
    what: str  # "step times of the programs in turns"
    result: str
    counts: bool  # whether the verdict is judged by it


class EarlierVerdict(Frozen):
    """What a page told before it had more evidence."""

    made: str  # ISO 8601
    word: str  # "same function", "unknown"
    headline: str
