"""Chooses the metric to bisect: from the option `--metric`, or as the worst row of a comparison of the ends."""

from configs.errors import ConfigError, suggest
from configs.schema import Frozen
from tasks.diff.compare_runs import SHARE_A_WORD
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.result_metrics import CHECKPOINTS, END, LOSS
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import CPU_TIME, STEP_TIME
from tasks.records import ComparisonRecord

PROGRAM = "program"
TIMES = (STEP_TIME.name, CPU_TIME.name)
WORDS = {
    "loss": LOSS.name, "died": END.name, "memory": MEMORY.name, "checkpoint": CHECKPOINTS.name, PROGRAM: PROGRAM,
}  # fmt: skip
KNOWN = {metric.name: metric.title for metric in METRICS if metric.bisected}


class Question(Frozen):
    """The bisected metric: the id of its row, and the row's title."""

    metric: str
    title: str

    @property
    def varies(self) -> bool:
        """Whether the metric differs between equal runs: True for times only."""
        return self.metric in TIMES


DIED = Question(metric=END.name, title="died")


def read_question(word: str) -> Question:
    """Return the metric for a row's title, a row's id or a key of WORDS. Raises ConfigError, with the known names."""
    plain = word.strip().casefold()
    if plain == "died" or plain == END.name:
        return DIED
    if plain == PROGRAM:
        return Question(metric=PROGRAM, title="program")
    for name, title in KNOWN.items():
        if plain in (name, title.casefold()) or WORDS.get(plain) == name:
            return Question(metric=name, title=title)
    names = [*WORDS, *KNOWN.values()]
    raise ConfigError([f"--metric {word!r:.80}: no such row{suggest(word, names)}; there are: {', '.join(names)}"])


def worst_question(record: ComparisonRecord) -> Question | None:
    """Return the row to bisect: a death, else a regressed row, else a changed one; None if no row is surely worse."""
    if record.candidate.has_died and not record.baseline.has_died:
        return DIED
    for verdict in ("regressed", "changed"):
        rows = [row for row in record.rows if row.verdict == verdict and not row.allowed]
        rows = [row for row in rows if row.metric not in SHARE_A_WORD and row.metric in KNOWN]
        # metrics without noise come first, because they need fewer runs
        rows.sort(key=lambda row: row.metric in TIMES)
        if rows:
            return Question(metric=rows[0].metric, title=rows[0].title)
    return None
