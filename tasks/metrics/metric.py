"""Defines the fields of an entry in the table of metrics."""

from collections.abc import Callable, Sequence
from typing import Literal

from configs.schema import Frozen
from tasks.records import Better, CompiledProgram, Measured, ProgramWork, RunFacts, RunRecord, Source

# exact: equal or not, within the tolerance; noise: levels of step times; steps: the values of every step;
# proof: verified, by a rule of its own; shown: never judged
Judged = Literal["exact", "noise", "steps", "proof", "shown"]
type OfRun = Callable[[RunRecord, RunFacts], Measured]
type OfRuns = Callable[[Sequence[RunRecord], Sequence[RunFacts]], Measured]
type OfProgram = Callable[[CompiledProgram, ProgramWork | None], float | None]


class Printed(Frozen):
    """The same metric as logs print it, for comparisons in which some run has no precise value."""

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
    why: str = ""  # the reason why a metric is only shown, or has the verdict of another row
    tolerance: str = ""  # the class in configs/tolerances; empty: exact
    precision: str = "printed precision"  # of the values that `of` returns
    maxview: bool = False  # one of MaxView's rows
    word_of: str = ""  # the metric whose verdict this row takes
    of: OfRun | None = None  # the value of one run
    of_runs: OfRuns | None = None  # the value of an arm, or of a single run; None: an arm has that of its first run
    of_steps: Callable[[RunRecord, float], float | None] | None = None  # the value of an arm, from its steady step in s
    of_program: OfProgram | None = None  # the value of one compiled program
    printed: Printed | None = None
    lacking: str = ""  # the text for an arm that ended well and has no value
    optional: bool = False  # no row, not even an empty one, unless both arms have a value, or the other arm died
    result: bool = False  # a result of the computation: headlines name it before times and memory
    trend: bool = False  # `history` keeps each run's value
    quick: str = ""  # judged by noise: the name of its series of steady steps
    middle: str = ""  # judged by noise: title, and name of the series, if the middle steps decide
    curve: str = ""  # the column that its curve draws, in the step table, the log's rows or the trainer's metrics file
    curve_title: str = ""  # title of its curve, if other than `title`
    bisected: bool = False  # `bisect --metric` accepts it
    explained: bool = False  # an explanation looks for its difference in the compiled program

    def value_of(self, run: RunRecord, facts: RunFacts) -> Measured | None:
        """Return the value of one run; None if runs have none of their own."""
        if self.of_runs is not None:
            return self.of_runs([run], [facts])
        return self.of and self.of(run, facts)

    def at_middle(self) -> "Metric":
        """Return the metric for a row in which the middle steps decide, with its own title."""
        return self.model_copy(
            update={"title": self.middle, "rule": "mean of the steps near the median, mean of the runs"}
        )


def number(value: float, decimals: int, source: Source | None, *, unit: float = 0.0) -> Measured:
    """Return a number with the text that shows it."""
    return Measured(value=value, text=f"{value:.{decimals}f}", source=source, unit=unit)
