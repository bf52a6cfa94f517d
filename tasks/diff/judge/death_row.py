"""Builds the row of the ends of both arms, for a death."""

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.judge.metric_rows import make_row
from tasks.metrics.result_metrics import END
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.run_facts import Measured
from tasks.records.shared_fields import Source
from tasks.records.text import counted


def death_row(arms: Arms, survived: str = "") -> MetricDiff:
    """Return the row with the end of both arms, for a death: *regressed* if only the candidate died, else *unknown*.

    survived: of an arm that did not die, in words; empty: its steps and final loss.
    """
    cells = (_end_cell(arms[0], survived), _end_cell(arms[1], survived))
    verdict = "regressed" if arms[1].dead and not arms[0].dead else "unknown"
    dead = " and ".join(arm.label for arm in arms if arm.dead)
    return make_row(END, cells, arms, Decision(verdict=verdict, reason=f"{dead} died before the end"))


def _end_cell(arm: ArmRuns, survived: str) -> Measured:
    run = arm.dead
    steps = arm.first.reading.steps
    if run is None and survived:
        return Measured(text=survived)
    if run is None:
        loss = "" if steps.is_empty() else f", final loss {steps['loss'][-1]}"
        return Measured(text=f"{counted(steps.height, 'step')}{loss}")
    error = run.reading.error
    # The error's message is left out: it is text of the log, and Prefect's classic UI interprets cells as markup.
    cause = "died" if error is None else f"died: {error.words or error.type}"
    place = None if error is None else Source(line=error.line, offset=error.offset)
    return Measured(text=cause, source=place)
