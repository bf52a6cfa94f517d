"""Defines what an entry in the table of metrics says."""

from collections.abc import Callable, Sequence
from typing import Literal

from configs.schema import Frozen
from tasks.records import Better, CompiledProgram, Measured, ProgramWork, RunFacts, RunRecord, Source

# exact: equal or not, within the tolerance; noise: levels of step times; steps: the values of every step;
# proof: what was verified, by a rule of its own; shown: never judged
Judged = Literal["exact", "noise", "steps", "proof", "shown"]
type OfRun = Callable[[RunRecord, RunFacts], Measured]
type OfRuns = Callable[[Sequence[RunRecord], Sequence[RunFacts]], Measured]
type OfProgram = Callable[[CompiledProgram, ProgramWork | None], float | None]


class Printed(Frozen):
    """The same metric as every log prints it, for runs of which not all know the value in full."""

    of: Callable[[RunRecord], Measured]
    decimals: int
    precision: str


class Metric(Frozen):
    """One metric: its name, its values, its judgement and where it is shown. Rows are in the order of the table."""

    name: str  # in records, files and `--metric`: never changed
    title: str
    unit: str
    better: Better
    rule: str  # how the value is computed
    decimals: int | None  # of the difference; None: it shows none
    judged: Judged
    why: str = ""  # of a metric that is only shown, or that has the verdict of another row: the reason
    tolerance: str = ""  # the class in configs/tolerances; empty: exact
    precision: str = "printed precision"  # with which `of` knows it
    maxview: bool = False  # one of MaxView's rows
    word_of: str = ""  # the metric whose verdict the row has
    of: OfRun | None = None  # the value of one run
    of_runs: OfRuns | None = None  # of an arm; None: of its first run
    of_steps: Callable[[RunRecord, float], float | None] | None = None  # of an arm, from its steady step in seconds
    of_program: OfProgram | None = None  # of one compiled program
    printed: Printed | None = None
    lacking: str = ""  # the text for an arm that ended well and has no value
    optional: bool = False  # no row, not even an empty one, unless both arms have it, or the arm that did not die
    result: bool = False  # of what was computed: a headline names it before times and memory
    trend: bool = False  # `history` keeps each run's value
    quick: str = ""  # judged by noise: the series of its steady steps
    middle: str = ""  # judged by noise: the title where the median step decides, and of its series
    curve: str = ""  # the column of its curve: of the step table, the log's rows or the trainer's metrics file
    curve_title: str = ""  # empty: the title
    bisected: bool = False  # `bisect --metric` takes it
    explained: bool = False  # a difference in it can come from the compiled program

    def at_middle(self) -> "Metric":
        """Return the metric as its row is where the median step decides: one title stands for one number."""
        return self.model_copy(
            update={"title": self.middle, "rule": "median of the steps but the first, mean of the runs"}
        )


def number(value: float, decimals: int, source: Source | None, *, unit: float = 0.0) -> Measured:
    """Return a number with the text that shows it."""
    return Measured(value=value, text=f"{value:.{decimals}f}", source=source, unit=unit)
