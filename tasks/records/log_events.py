"""Events in a log that is still growing, for live output."""

from configs.schema import Frozen
from tasks.records.run_end import RunEnd


class StepCompleted(Frozen):
    """A step was printed. `seconds` and `loss` are None if the line lacks them; `text`: the line without prefix."""

    step: int
    seconds: float | None
    loss: float | None
    text: str
    line: int
    offset: int


class CheckpointStarted(Frozen):
    """A save began; it may never be committed."""

    step: int
    path: str | None  # None if not printed
    line: int
    offset: int


class CheckpointCommitted(Frozen):
    """The log shows that a checkpoint is complete."""

    step: int
    path: str
    line: int
    offset: int


class RunEnded(RunEnd):
    """The run has ended. Without exit code and error: its processes are gone and the log shows no end."""


type LogEvent = StepCompleted | CheckpointStarted | CheckpointCommitted | RunEnded
