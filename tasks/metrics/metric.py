"""Defines `Metric`, an entry of the table of metrics: how its value is computed, judged and shown."""

from collections.abc import Callable, Sequence
from typing import Literal

from configs.frozen import Frozen
from tasks.records.compared_case import Better
from tasks.records.compiled import CompiledProgram, ProgramWork
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured, RunFacts
from tasks.records.shared_fields import Source

# How a metric is judged. exact: equal within the tolerance; noise: by the step times of all runs; steps: by its
# values at all steps; proof: by a rule in tasks/diff that checks evidence; shown: not at all.
Judged = Literal["exact", "noise", "steps", "proof", "shown"]
type OfRun = Callable[[RunRecord], Measured]
type OfRuns = Callable[[Sequence[RunRecord], Sequence[RunFacts]], Measured]
type OfSteps = Callable[[RunRecord, float], float | None]
type OfProgram = Callable[[CompiledProgram, ProgramWork | None], float | None]


class Printed(Frozen):
    """A metric as logs print it, for comparisons in which a run has no precise value."""

    of: OfRun  # the printed value of one run
    decimals: int  # of the difference
    precision: str  # of the values, in words


class Metric(Frozen):
    """One metric: its name, how its value is computed, how it is judged, and where it is shown."""

    name: str  # identifier in records, files and `--metric`; must not change
    title: str  # the name that users see
    unit: str  # of the value; empty if it has none
    better: Better  # which values are better: lower, higher, or only equal ones
    rule: str  # how the value is computed, in words
    decimals: int | None  # shown decimals of the difference; None: no difference is shown
    judged: Judged
    why: str = ""  # the reason why a metric is only shown, or has the verdict of another row
    tolerance: str = ""  # name of the tolerance in configs/tolerances; empty: values must be equal
    precision: str = "printed precision"  # of the values that `of` returns, in words
    maxview: bool = False  # whether the pages of MaxView, which `ingest` reads, have this row
    verdict_of: str = ""  # name of the metric whose verdict this metric shares; empty: it has its own verdict
    of: OfRun | None = None  # computes the value of one run
    of_runs: OfRuns | None = None  # computes the value of an arm from all its runs; None: the first run's value is used
    of_steps: OfSteps | None = None  # computes the value of an arm from its first run and its steady step time (s)
    of_program: OfProgram | None = None  # computes the value of one compiled program
    printed: Printed | None = None  # the metric as logs print it, if that is less precise than `of`
    lacking: str = ""  # the text for an arm that ended well and has no value
    optional: bool = False  # the row is shown only if both arms have a value, or if the arm without a value died
    result: bool = False  # a result of the computation: headlines name it before times and memory
    trend: bool = False  # whether the history stores each run's value
    quick: str = ""  # if judged by noise: the history's series of steady times; its series of typical times is `name`
    middle: str = ""  # if judged by noise: title of the row when the typical steps decide
    curve: str = ""  # the column that its curve draws, in the step table, the log's rows or the trainer's metrics file
    curve_title: str = ""  # title of its curve, if other than `title`
    bisected: bool = False  # whether `bisect --metric` accepts it
    explained: bool = False  # whether the compiled programs are searched for the cause of its difference

    def value_of(self, run: RunRecord, facts: RunFacts) -> Measured | None:
        """Return the value of one run; None if the metric has neither `of_runs` nor `of`."""
        if self.of_runs is not None:
            return self.of_runs([run], [facts])
        return self.of and self.of(run)

    def at_middle(self) -> "Metric":
        """Return a copy with the title and the rule of a row that the typical steps (near the median) decide."""
        return self.replace(title=self.middle, rule="mean of the steps near the median, mean of the runs")


def number(value: float, decimals: int, source: Source | None, *, unit: float = 0.0) -> Measured:
    """Return a value with its text and its place in the log. `unit`: one unit of its last printed digit; 0: exact."""
    return Measured(value=value, text=f"{value:.{decimals}f}", source=source, unit=unit)
