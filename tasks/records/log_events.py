"""Events in a growing log, for live views."""

from configs.schema import Frozen
from tasks.records.run_end import RunEnd


class StepCompleted(Frozen):
    """A step line; seconds and loss are None if the line lacks them. `text` is the line without its prefix."""

    step: int
    seconds: float | None
    loss: float | None
    text: str
    line: int
    offset: int


class CheckpointStarted(Frozen):
    """A save began; it may never be committed."""

    step: int
    path: str | None
    line: int
    offset: int


class CheckpointCommitted(Frozen):
    """The log shows that a checkpoint is complete."""

    step: int
    path: str
    line: int
    offset: int


class RunEnded(RunEnd):
    """The run has ended. Without exit code and error, its processes are gone and nothing closed its log."""


type LogEvent = StepCompleted | CheckpointStarted | CheckpointCommitted | RunEnded
