"""Where the time of a run went."""

from datetime import UTC, datetime

from configs.schema import Frozen
from tasks.records.source import Source


class TimePart(Frozen):
    """What one kind of time cost a run.

    `compute`: the steps, each stall as long as a steady step; `compile`, `dispatch`, `checkpoint`, …: what stalls of
    that cause took beyond it. Outside of the steps, in the log's own words: `waits for saves`, `blocking saves`,
    `wait at the end`, `evaluation at the end`; the rest is `start` before the first step, `end` after the last,
    `between` them, or `outside` where the log does not date its lines. `first steps`: all steps of a run that died
    before there was a steady one.
    """

    part: str
    seconds: float
    share: float  # of the run's total
    steps: int = 0  # how many steps it was found in
    source: Source | None = None  # of the longest of them


class TimeAccount(Frozen):
    """Where the time of one run went; the parts add up to the total."""

    arm: str
    run_name: str
    total_s: float
    parts: tuple[TimePart, ...]


def seconds_between(start: str | None, end: str | None) -> float | None:
    """The seconds from one ISO 8601 moment to another; None if either is unknown. Moments without a zone are UTC."""
    if start is None or end is None:
        return None
    moments = [datetime.fromisoformat(text) for text in (start, end)]
    first, last = (moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in moments)
    return (last - first).total_seconds()
