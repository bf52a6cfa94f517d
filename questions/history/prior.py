"""Collects the differences between equal runs in the history of a target: the prior for the noise of run times there.

A target is a place where runs are launched. The few repeats of one comparison do not suffice to estimate this noise. A
level is a run's wall or CPU time per step, computed from all typical steps or from the quick (steady) ones. An arm is
one of the two compared versions.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import hypot, log

import polars as pl

from questions.history.history_table import load_history
from questions.history.record_rows import folder_name
from tasks.diff.examine.examine_case import CaseRuns
from tasks.diff.examine.noise import MIN_PAIRS, Past
from tasks.metrics.table import METRICS
from tasks.store.store import Store

type Measured = tuple[float, float | None]  # a run's value and its relative standard error, None if unknown

# names of both levels of each time metric
TIME_METRICS = tuple(name for metric in METRICS if metric.quick for name in (metric.name, metric.quick))


def past_of_history(case: CaseRuns, store: Store) -> dict[str, Past]:
    """Return `past_noise` of the store's history, without the runs of `case` itself."""
    runs = [folder_name(run) for run in case.runs]
    return past_noise(load_history(store.files), target=case.target, case=case.case, excluded=runs)


def past_noise(history: pl.DataFrame, *, target: str, case: str, excluded: Sequence[str] = ()) -> dict[str, Past]:
    """Return name of a level → differences of equal runs on a target. excluded: folder names of runs to exclude.

    Uses the history of the case, or of all cases if the case has fewer than MIN_PAIRS pairs. Omits a level if all
    cases together have fewer pairs than that.
    """
    found = {}
    for metric in TIME_METRICS:
        for part, source in ((case, f"history of {case} on {target}"), (None, f"history of {target}")):
            differences = differences_of_equal_runs(history, target=target, metric=metric, case=part, excluded=excluded)
            if len(differences) >= MIN_PAIRS:
                sizes, errors = zip(*differences, strict=True)
                found[metric] = Past(differences=sizes, errors=errors, source=source)
                break
    return found


def differences_of_equal_runs(
    history: pl.DataFrame, *, target: str, metric: str, case: str | None, excluded: Sequence[str] = ()
) -> list[tuple[float, float]]:
    """Return `difference_of` for pairs of runs that should be equal. metric: name of a level. case: None for all cases.

    If the programs of a comparison were proved equal, a pair is one run of each arm with the same repeat number. Among
    all other runs, a pair is two successive runs of a group (`group_equal_runs`).
    """
    history = history.filter((pl.col("target") == target) & ~pl.col("run").is_in(list(excluded)))
    chosen = history.filter((pl.col("metric") == metric) & pl.col("value").is_finite() & (pl.col("value") > 0))
    if case is not None:
        chosen = chosen.filter(pl.col("case") == case)
    proved = chosen.filter(pl.col("same_program").fill_null(value=False))
    sides = {role: pl.col("role") == role for role in ("baseline", "candidate")}
    pairs = (
        proved.group_by("comparison_id", "repeat", maintain_order=True)
        .agg(
            pl.col(column).filter(side).first().alias(f"{role} {column}")
            for role, side in sides.items()
            for column in ("value", "error")
        )
        .drop_nulls(["baseline value", "candidate value"])
    )
    between = [
        difference_of((row["baseline value"], row["baseline error"]), (row["candidate value"], row["candidate error"]))
        for row in pairs.iter_rows(named=True)
    ]
    alone = chosen.filter(~pl.col("run").is_in(proved["run"].unique().implode()))
    return [*between, *neighbour_differences(group_equal_runs(alone))]


def group_equal_runs(values: pl.DataFrame) -> list[list[Measured]]:
    """Return (value, error) of one metric's runs, in groups of runs that should be equal, the latest group first.

    The runs of a group have the same target, case, arm and commit, and are in the order in which they ran. If a run has
    a value of `alike`, this replaces the arm. A run in several comparisons is counted once; runs with neither a commit
    nor `alike` are omitted.
    """
    grouped = (
        values.filter(pl.col("commit").is_not_null() | pl.col("alike").is_not_null())
        .sort("created", "comparison_id", nulls_last=False)
        .unique("run", keep="last", maintain_order=True)
        .sort("time", "run")
        .group_by("target", "case", pl.coalesce("alike", "arm").alias("who"), "commit", maintain_order=True)
        .agg("value", "error", pl.col("time").max().alias("latest"))
        .sort("latest", descending=True, nulls_last=True)
    )
    return [list(zip(row["value"], row["error"], strict=True)) for row in grouped.iter_rows(named=True)]


def difference_of(before: Measured, after: Measured) -> tuple[float, float]:
    """Return the natural logarithm of after / before, and its standard error; an unknown error counts as 0."""
    return log(after[0] / before[0]), hypot(before[1] or 0.0, after[1] or 0.0)


def neighbour_differences(groups: Iterable[Iterable[Measured]]) -> list[tuple[float, float]]:
    """Return `difference_of` for every two successive runs of a group. Omits runs whose value is not positive."""
    usable = ([run for run in group if run[0] > 0] for group in groups)
    return [difference_of(before, after) for group in usable for before, after in pairwise(group)]
