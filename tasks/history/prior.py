"""Turns the history of a target into what equal runs on it differ by: the noise that few repeats cannot show."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tasks.diff.case import CaseRuns
from tasks.diff.noise import LEAST_PAIRS, NoisePrior, fit_prior, neighbour_differences
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
) -> list[float]:
    """Logarithms of ratios between neighbouring runs that should be equal.

    That is: between the two arms of a comparison that were proved to run the same program, and between the runs of
    one arm at one commit that are in no such comparison.
    """
    chosen = history.filter(
        (pl.col("target") == target)
        & (pl.col("metric") == metric)
        & pl.col("value").is_finite()
        & (pl.col("value") > 0)
    ).filter(~pl.col("run").is_in(list(but)))
    if case is not None:
        chosen = chosen.filter(pl.col("case") == case)
    proved = chosen.filter(pl.col("same_program").fill_null(value=False))
    pairs = (
        proved.group_by("comparison_id", "repeat", maintain_order=True)
        .agg(
            pl.col("value").filter(pl.col("role") == "baseline").first().alias("baseline"),
            pl.col("value").filter(pl.col("role") == "candidate").first().alias("candidate"),
        )
        .drop_nulls()
    )
    alone = chosen.filter(~pl.col("run").is_in(proved["run"].unique().implode()))
    groups = noise_groups(alone, target=target, metric=metric, case=case)
    between = np.log(pairs["candidate"].to_numpy() / pairs["baseline"].to_numpy()).tolist()
    return [*between, *neighbour_differences(group.values for group in groups)]
