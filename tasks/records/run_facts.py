"""Records of the facts of one run: step-time levels, time account and metric values, computed from its log."""

from configs.schema import Frozen
from tasks.records.source import Source
from tasks.records.times import TimeAccount


class StepLevel(Frozen):
    """A level of one run's step times in seconds, and its standard error relative to it."""

    seconds: float
    error: float  # a fraction: 0.01 is 1 %


class StepLevels(Frozen):
    """The step time of one run: `quick` is the 10 % quantile of its steps, `middle` their mean near the median."""

    quick: StepLevel
    middle: StepLevel
    slow: float = 0.0  # fraction of steps that take more than 1.25 × the usual step
    shift: float = 0.0  # change of the level within the run, as a natural logarithm; 0 if chance can explain it
    mean: float = 0.0  # mean seconds per step, stalls included, without the first step


class Measured(Frozen):
    """One metric's value in a run. Without a value, `value` is None and `text` is empty."""

    value: float | None = None  # None also for a value that is not a number, such as a version
    text: str = ""  # the value for display
    source: Source | None = None  # position in the log; None: computed from several values
    unit: float = 0.0  # the last printed digit's unit, e.g. 0.001; 0: the value is not rounded
    samples: int = 1  # number of samples behind the value
    note: str = ""  # the parts of the value, shown with the row's reason


class RunFacts(Frozen):
    """The facts of one run, independent of the other arm, the run's number and the first step's number."""

    code: str  # digest of the code that computed the facts; with other code they are recomputed
    levels: dict[str, StepLevels] = {}  # metric -> its levels; omitted with fewer than two usable steps
    wall: StepLevels | None = None  # step time including waits for a CPU; None with fewer than two usable steps
    account: TimeAccount | None = None  # None: too few steps, or a death without dates
    values: dict[str, Measured] = {}  # metric -> its value; omitted if the run has none
