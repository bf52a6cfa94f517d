"""The facts of one run, computed once from its log and its metrics file."""

from configs.schema import Frozen
from tasks.records.source import Source
from tasks.records.times import TimeAccount


class StepLevel(Frozen):
    """A level in seconds and its standard error within the run, relative to it."""

    seconds: float
    error: float


class StepLevels(Frozen):
    """`quick`: the level of the steady steps. `middle`: that of the middle steps."""

    quick: StepLevel
    middle: StepLevel
    slow: float = 0.0  # the share of steps that take more than 1.25 × the usual step
    shift: float = 0.0  # by how much the level changes inside the run, as a logarithm; 0: no sure change
    mean: float = 0.0  # seconds from step to step of all steps but the first, stalls included


class Measured(Frozen):
    """One value: the number, the text that shows it (empty: the run has none), and its place in the log."""

    value: float | None = None
    text: str = ""
    source: Source | None = None
    unit: float = 0.0  # one unit of the last printed digit; 0: all digits are known
    samples: int = 1  # steps behind the value
    note: str = ""  # its parts, for the reason of the row


class RunFacts(Frozen):
    """The facts of one run. They do not depend on the other arm, on the run's number or on the first step's number."""

    code: str  # digest of the code that computed them; other code computes them again
    levels: dict[str, StepLevels] = {}  # by metric; without those with fewer than two usable steps
    wall: StepLevels | None = None  # of the step time, the waits for a processor included
    account: TimeAccount | None = None  # None: too few steps, or a death without dates
    values: dict[str, Measured] = {}  # by metric
