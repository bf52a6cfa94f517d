"""Records of one run's facts, computed from its log: step-time levels, use of its wall time, metric values."""

from datetime import UTC, datetime

from configs.frozen import Frozen
from tasks.records.shared_fields import Source


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


class StepLevel(Frozen):
    """A quantile or mean of one run's step times, and its standard error."""

    seconds: float
    error: float  # as a fraction of `seconds`: 0.01 is 1 %


class StepLevels(Frozen):
    """The step time of one run: `quick` is the 10 % quantile of steps, `middle` the mean of steps near the median."""

    quick: StepLevel
    middle: StepLevel
    slow: float = 0.0  # fraction of steps longer than 1.25 × `step_time_levels.usual_step`
    shift: float = 0.0  # change of the level within the run, as a natural logarithm; 0 if chance can explain it
    mean: float = 0.0  # mean seconds per step, stalls included, without the first step


class Measured(Frozen):
    """One metric's value in a run. Without a value, `value` is None and `text` is empty."""

    value: float | None = None  # None also for a value that is not a number, such as a version
    text: str = ""  # the value for display
    source: Source | None = None  # position in the log; None: computed from several values
    unit: float = 0.0  # value of 1 in the last printed digit, e.g. 0.001; 0: the value is not rounded
    samples: int = 1  # number of samples behind the value
    note: str = ""  # the parts of the value, shown with the row's reason


class RunFacts(Frozen):
    """The facts of one run, independent of the other arm, the run's number and the first step's number."""

    code: str  # digest of the code that computed the facts; with other code they are recomputed
    levels: dict[str, StepLevels] = {}  # metric -> its levels; omitted if the run has too few steps
    wall: StepLevels | None = None  # step time including waits for a CPU; None if the run has too few steps
    account: TimeAccount | None = None  # None: too few timed steps, and the run did not die or its log has no dates
    values: dict[str, Measured] = {}  # metric -> its value; omitted if the run has none
