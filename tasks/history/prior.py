"""Turns the history of a target into what equal runs on it differ by: the noise that few repeats cannot show."""

from collections.abc import Sequence
from math import log

import polars as pl

from tasks.diff.case import CaseRuns
from tasks.diff.noise import LEAST_PAIRS, Difference, NoisePrior, fit_prior, neighbour_differences, pair_unrest
from tasks.diff.time_rows import QUICK
from tasks.history.groups import noise_groups
from tasks.history.rows import folder_name
from tasks.history.table import load_history
from tasks.store import Store

METRICS = (*QUICK, *QUICK.values())


def read_priors(case: CaseRuns, store: Store) -> dict[str, NoisePrior]:
    """What the history of the store knows of the noise that a case is judged by, its own runs left out."""
    runs = [folder_name(run) for run in case.runs]
    return noise_priors(load_history(store.files), target=case.target, case=case.case, but=runs)


def noise_priors(history: pl.DataFrame, *, target: str, case: str, but: Sequence[str] = ()) -> dict[str, NoisePrior]:
    """The prior of each noisy metric that the history of the target knows enough about; `but` names the runs judged.

    Out of the case's own runs; out of all cases of the target while the case has too few.
    """
    found = {}
    for metric in METRICS:
        for part, source in ((case, f"history of {case} on {target}"), (None, f"history of {target}")):
            differences = equal_differences(history, target=target, metric=metric, case=part, but=but)
            prior = fit_prior(differences, source) if len(differences) >= 2 * LEAST_PAIRS or part is None else None
            if prior is not None:
                found[metric] = prior
                break
    return found


def equal_differences(
    history: pl.DataFrame, *, target: str, metric: str, case: str | None, but: Sequence[str] = ()
) -> list[Difference]:
    """What neighbouring runs differ by that should be equal, with their unrest.

    That is: the two arms of a comparison that were proved to run the same program, and the runs of one arm at one
    commit that are in no such comparison.
    """
    history = history.filter((pl.col("target") == target) & ~pl.col("run").is_in(list(but)))
    chosen = history.filter((pl.col("metric") == metric) & pl.col("value").is_finite() & (pl.col("value") > 0))
    if case is not None:
        chosen = chosen.filter(pl.col("case") == case)
    unrest = _unrest(history, metric)
    proved = chosen.filter(pl.col("same_program").fill_null(value=False))
    sides = {role: pl.col("role") == role for role in ("baseline", "candidate")}
    pairs = (
        proved.group_by("comparison_id", "repeat", maintain_order=True)
        .agg(
            pl.col(name).filter(side).first().alias(f"{name}_{role}")
            for role, side in sides.items()
            for name in ("value", "run")
        )
        .drop_nulls()
    )
    between = [
        Difference(size=log(after / before), unrest=pair_unrest(unrest.get(one), unrest.get(other)))
        for before, one, after, other in pairs.select(
            "value_baseline", "run_baseline", "value_candidate", "run_candidate"
        ).iter_rows()
    ]
    alone = chosen.filter(~pl.col("run").is_in(proved["run"].unique().implode()))
    groups = noise_groups(alone, target=target, metric=metric, case=case)
    series = ([(v, unrest.get(run)) for v, run in zip(group.values, group.runs, strict=True)] for group in groups)
    return [*between, *neighbour_differences(series)]


def _unrest(history: pl.DataFrame, metric: str) -> dict[str, float]:
    """The unrest of each run, by the clock that a metric belongs to: see `Levels.unrest`."""
    middle = next(name for name, quick in QUICK.items() if metric in (name, quick))
    levels = [
        history.filter((pl.col("metric") == name) & (pl.col("value") > 0))
        .unique("run")
        .select("run", name=pl.col("value"))
        for name in (middle, QUICK[middle])
    ]
    both = levels[0].join(levels[1], on="run", suffix="_quick")
    return {run: max(0.0, log(slow / quick)) for run, slow, quick in both.iter_rows()}
