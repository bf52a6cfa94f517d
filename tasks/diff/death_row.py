"""Turns how the runs of two arms ended into one row, where an arm died."""

from tasks.diff.arms import ArmRuns
from tasks.diff.decide import Decision
from tasks.diff.rows import Arms, Cell, Metric, make_row
from tasks.records import MetricDiff, Source

END = Metric(name="end", title="End of the run", unit="", better="equal", rule="how the run ended", decimals=None)


def death_row(arms: Arms) -> MetricDiff:
    """The end of both arms: a run that died is a result, with its cause; nothing else of it can be judged."""
    cells = (_cell(arms[0]), _cell(arms[1]))
    verdict = "regressed" if arms[1].dead and not arms[0].dead else "unknown"
    dead = " and ".join(arm.label for arm in arms if arm.dead)
    return make_row(END, cells, arms, Decision(verdict=verdict, reason=f"{dead} died before the end"))


def _cell(arm: ArmRuns) -> Cell:
    run = arm.dead
    steps = arm.first.reading.steps
    if run is None:
        loss = "" if steps.is_empty() else f", final loss {steps['loss'][-1]}"
        return Cell(text=f"{steps.height} steps{loss}")
    error = run.reading.error
    # the message is text of the log: Prefect's classic UI takes that of a table's cell for markup
    cause = "died" if error is None else ": ".join(part for part in ("died", error.words, error.type) if part)
    place = None if error is None else Source(line=error.line, offset=error.offset)
    return Cell(text=cause, source=place)
