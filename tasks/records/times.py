"""Records of how a run spent its wall time, and the difference of two times."""

from datetime import UTC, datetime

from configs.schema import Frozen
from tasks.records.source import Source


class TimePart(Frozen):
    """The time that a run spent on one activity, `part`.

    `compute`: all steps, where a stalled step counts as a median step. `compile`, `dispatch`, `checkpoint`, …: the
    excess of the stalls with that cause. `waits for saves`, `blocking saves`, `wait at the end`, `evaluation at the
    end`: waits outside the steps, as printed. The remaining time is `start` before the first step, `between` steps and
    `end` after the last, or `outside` if step lines are undated. `first steps`: all steps of a run that died early.
    """

    part: str  # name of the activity
    seconds: float
    share: float  # fraction of the run's total, 0 to 1
    steps: int = 0  # number of steps that contain such time; 0 for time outside the steps
    source: Source | None = None  # position of the longest such step or wait


class TimeAccount(Frozen):
    """The wall time of one run by activity; the parts add up to the total."""

    arm: str
    run_name: str
    total_s: float  # seconds
    parts: tuple[TimePart, ...]


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two ISO 8601 times; None if either is None. Times without a zone are UTC."""
    if start is None or end is None:
        return None
    moments = [datetime.fromisoformat(text) for text in (start, end)]
    first, last = (moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments)
    return (last - first).total_seconds()
