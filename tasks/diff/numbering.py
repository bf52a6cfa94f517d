"""Renumbers the steps of one arm if its logs count from 1 and those of the other arm from 0."""

import numpy as np
import polars as pl

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms
from tasks.diff.parity import compare_metric


def number_alike(arms: Arms) -> Arms:
    """Return both arms; if only one counts its steps from 1, its steps are renumbered from 0.

    They are renumbered only if all runs have equally many steps and the losses then agree better: a log that lacks its
    step 0 also begins at 1, but its losses agree without renumbering.
    """
    steps = [[run.reading.steps["step"] for run in arm.runs] for arm in arms]
    begins = [{table.first() for table in side} for side in steps]
    if begins not in ([{0}, {1}], [{1}, {0}]) or len({len(table) for side in steps for table in side}) > 1:
        return arms
    alike = (_from_zero(arms[0]), arms[1]) if begins[0] == {1} else (arms[0], _from_zero(arms[1]))
    return alike if _apart(alike) < _apart(arms) else arms


def _from_zero(arm: ArmRuns) -> ArmRuns:
    runs = []
    for run in arm.runs:
        steps = run.reading.steps.with_columns(pl.col("step") - 1)
        evals = tuple(row | {"step": None if row["step"] is None else row["step"] - 1} for row in run.reading.evals)
        reading = run.reading.model_copy(update={"steps": steps, "evals": evals})
        runs.append(run.model_copy(update={"reading": reading, "facts": None}))
    return arm.model_copy(update={"runs": tuple(runs), "counts_from": 1})


def _apart(arms: Arms) -> float:
    """Return the mean absolute difference of the first runs' losses at the steps of all runs; inf without any."""
    left, right = (side[0] for side in compare_metric(arms).sides)
    return float(np.abs(right - left).mean()) if left.size else np.inf
