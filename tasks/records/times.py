"""The time account of a run."""

from datetime import UTC, datetime

from configs.schema import Frozen
from tasks.records.source import Source


class TimePart(Frozen):
    """The time of one kind in a run.

    `compute`: the steps, each stall counted as a median step; `compile`, `dispatch`, `checkpoint`, …: the excess of
    stalls with that cause. Outside of the steps, as printed: `waits for saves`, `blocking saves`, `wait at the end`,
    `evaluation at the end`; the rest is `start` before the first step, `end` after the last, `between` them, or
    `outside` if the log has no dates. `first steps`: all steps of a run that died before a steady one.
    """

    part: str
    seconds: float
    share: float  # of the run's total
    steps: int = 0  # number of steps with this kind of time
    source: Source | None = None  # of the longest step


class TimeAccount(Frozen):
    """The time account of one run; the parts add up to the total."""

    arm: str
    run_name: str
    total_s: float
    parts: tuple[TimePart, ...]


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two ISO 8601 times; None if either is unknown. Times without a zone are UTC."""
    if start is None or end is None:
        return None
    moments = [datetime.fromisoformat(text) for text in (start, end)]
    first, last = (moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments)
    return (last - first).total_seconds()
