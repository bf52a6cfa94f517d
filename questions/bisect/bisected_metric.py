"""Chooses the metric to bisect: from the option `--metric`, or as the worst row of a comparison of good and bad."""

from configs.errors import ConfigError, suggest
from configs.frozen import Frozen
from questions.bisect.terms import MAX_RUNS_OF_POINT, Finish, SearchLimits, Train
from tasks.diff.judge.conclude import SHARE_A_VERDICT
from tasks.diff.judge.repeat_rule import undecided_rows
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.result_metrics import CHECKPOINTS, END, FUNCTION, LOSS
from tasks.metrics.table import BISECTED_TITLES
from tasks.metrics.time_metrics import CPU_TIME, PROGRAM_TIME, STEP_TIME
from tasks.records.compared_case import ComparisonRecord

PROGRAM = "program"
TIMES = (STEP_TIME.name, CPU_TIME.name)  # ids of the rows with times
WORDS = {  # short name for `--metric` → id of a row, or PROGRAM
    "loss": LOSS.name, "died": END.name, "memory": MEMORY.name, "checkpoint": CHECKPOINTS.name, PROGRAM: PROGRAM,
    "time": PROGRAM_TIME.name, "function": FUNCTION.name,
}  # fmt: skip
SAME = "good and bad are the same: good may be bad itself (name an earlier --good), or bad good"


class BisectedMetric(Frozen):
    """The metric to bisect: a row of the table of metrics, or the lowered program (PROGRAM).

    name: the row's id, or PROGRAM.
    """

    name: str
    title: str

    @property
    def is_of_program(self) -> bool:
        """Whether the metric is of the program alone, so that nothing is trained: its step time, or its function."""
        return self.name in (PROGRAM_TIME.name, FUNCTION.name)

    @property
    def is_function(self) -> bool:
        """Whether the metric is the function that the step computes."""
        return self.name == FUNCTION.name

    @property
    def is_time(self) -> bool:
        """Whether the metric is a time. Only times differ between equal runs."""
        return self.name in TIMES


DIED = BisectedMetric(name=END.name, title="died")
TIME = BisectedMetric(name=STEP_TIME.name, title=STEP_TIME.title)


def read_metric(word: str) -> BisectedMetric:
    """Return the metric for a bisected row's title or id, or a key of WORDS. Raises ConfigError."""
    plain = word.strip().casefold()
    if plain in ("died", END.name):
        return DIED
    if plain == PROGRAM:
        return BisectedMetric(name=PROGRAM, title=PROGRAM)
    for name, title in BISECTED_TITLES.items():
        if plain in (name, title.casefold()) or WORDS.get(plain) == name:
            return BisectedMetric(name=name, title=title)
    names = [*WORDS, *BISECTED_TITLES.values()]
    raise ConfigError([f"--metric {word!r:.80}: no such row{suggest(word, names)}; there are: {', '.join(names)}"])


def choose_metric(
    record: ComparisonRecord, runs: int, last: int, limits: SearchLimits, spent_s: float
) -> BisectedMetric | Train | Finish:
    """Choose the metric from a comparison of good and bad.

    Returns the metric of the worst row. If no row is worse, returns one more run of both ends (`Train`) or a result
    with the reason to stop (`Finish`). `Train` needs a good end that did not die, comparable runs, a row that a further
    run may decide, and limits that allow the run.

    runs: runs of each end so far. last: index of bad among the points. spent_s: seconds of all runs so far.
    """
    metric = _find_worst_metric(record)
    if metric is not None:
        return metric
    if record.baseline.has_died:
        cause = record.baseline.cause_of_death
        told = f": {cause.summary}" if cause else ""
        return Finish(outcome="no difference", why=f"good died itself{told}: name an earlier --good")
    blocking = [finding.message for finding in record.findings if finding.effect == "blocks"]
    if blocking:
        return Finish(outcome="no difference", why=f"good and bad cannot be compared: {blocking[0]}")
    rows = undecided_rows(record)
    if (
        rows
        and limits.allow(2 * runs + 2, spent_s)
        and runs < (MAX_RUNS_OF_POINT if limits.are_given else limits.max_end_runs)
    ):
        return Train(points=(0, last), why="both ends")
    if rows:
        row = max(rows, key=lambda row: row.runs_wanted or 0)
        why = say_unsure(runs, f"{row.title} {row.effect_text}".strip(), row.runs_wanted, row.cost_text)
        return Finish(outcome="no difference", why=why)
    improved = [row.title for row in record.rows if row.verdict == "improved"]
    return Finish(outcome="no difference", why=say_better(improved[0]) if improved else SAME)


def _find_worst_metric(record: ComparisonRecord) -> BisectedMetric | None:
    """Return the metric of the worst row: DIED if only bad died, else of a regressed row, else of a changed row.

    None if no row is surely worse. Ignores rows that may change and rows that are not bisected.
    Of several regressed or changed rows, a row without a time comes first.
    """
    if record.candidate.has_died and not record.baseline.has_died:
        return DIED
    for verdict in ("regressed", "changed"):
        rows = [
            row
            for row in record.rows
            if row.verdict == verdict
            and not row.allowed
            and row.metric not in SHARE_A_VERDICT
            and row.metric in BISECTED_TITLES
        ]
        if rows:  # metrics other than times come first, because they need fewer runs
            row = min(rows, key=lambda row: row.metric in TIMES)
            return BisectedMetric(name=row.metric, title=row.title)
    return None


def say_better(text: str) -> str:
    """Return the message for a bad end that is better than good. text: the improved row, or the size of the effect."""
    return f"bad is better than good ({text}): are --good and --bad swapped?"


def say_unsure(runs: int, text: str, runs_wanted: int | None, cost: str) -> str:
    """Return the message for a difference that is not significant. runs: of each end so far.

    text: the row or its effect. runs_wanted: runs of each end that would probably decide. cost: their cost, as text.
    """
    more = f"; {runs_wanted} runs of each would probably decide" if runs_wanted else ""
    price = f" ({cost})" if cost else ""
    option = f" (--max-runs {2 * runs_wanted + MAX_RUNS_OF_POINT})" if runs_wanted else ""
    return f"no sure difference between good and bad after {runs} runs of each: {text}{more}{price}{option}"
