"""Finds how the batches of two arms differ: by the digests of their runs, else by their recorded steps."""

import polars as pl

from configs.frozen import Frozen
from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.parity import DATA_COLUMNS
from tasks.metrics.merged_steps import last_of_each_step
from tasks.records.data import DataComparison, DataKind


class DataDifference(Frozen):
    """How the batches of two arms differ, by the digests of their runs, else by their recorded steps."""

    kind: DataKind
    steps: int  # number of compared steps
    first: int | None = None  # the first step whose batches differ
    named: str = ""  # its arrays that differ; empty: unknown


def find_data(arms: Arms, recorded: DataComparison | None) -> DataDifference | None:
    """Return how the batches of the arms' first runs differ; None if unknown, or if the runs share a start.

    recorded: the comparison of recorded steps, which decides if the runs have no digests.
    """
    if any(run.plan is not None and run.plan.start is not None for arm in arms for run in arm.runs):
        return None  # a shared start replaces the batches behind the trainer's digest
    tables = [_digests(arm) for arm in arms]
    if tables[0] is None or tables[1] is None:
        if recorded is None:
            return None
        return DataDifference(kind=recorded.kind, steps=recorded.steps, first=recorded.first, named=recorded.named)
    both = tables[0].join(tables[1], on="step", suffix=" of the other", how="inner").sort("step")
    differ = [both[name] != both[f"{name} of the other"] for name in DATA_COLUMNS]
    if not both.height:
        return None
    if not differ[0].any():
        return DataDifference(kind="equal", steps=both.height)
    first = int(both.filter(differ[0])["step"][0])
    return DataDifference(kind="other" if differ[1].any() else "reordered", steps=both.height, first=first)


def _digests(arm: ArmRuns) -> pl.DataFrame | None:
    table = arm.first.metrics
    if table is None or not table.height or not {"step", *DATA_COLUMNS} <= set(table.columns):
        return None
    return last_of_each_step(table).select("step", *DATA_COLUMNS).drop_nulls()
