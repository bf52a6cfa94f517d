"""Groups equal runs in the history: their values show the noise of a metric."""

from collections.abc import Sequence

import polars as pl

from configs.schema import Frozen

KEYS = ("target", "case", "metric", "arm", "commit")


class NoiseGroup(Frozen):
    """The per-run values of one metric from runs that should be equal, oldest first; all tuples have one length."""

    target: str
    case: str
    metric: str
    arm: str  # for ingested runs: the first run's name
    commit: str  # empty if the logs do not name it
    values: tuple[float, ...]
    errors: tuple[float | None, ...]  # relative standard error of each value, from the run's own steps
    samples: tuple[int, ...]  # steps behind each value
    runs: tuple[str, ...]
    jax: tuple[str | None, ...]


def noise_groups(
    history: pl.DataFrame,
    *,
    target: str,
    metric: str,
    case: str | None = None,
    least: int = 2,
    but: Sequence[str] = (),
) -> list[NoiseGroup]:
    """Return groups of at least `least` runs with equal target, case, metric, arm and commit, latest group first.

    Groups ingested runs by the column `alike` (runs that should be equal), because their arm names vary. Counts a run
    of several comparisons once. Omits the runs named in `but` (the ones being judged), values that are not finite, and
    runs with neither a commit nor `alike`.
    """
    chosen = history.filter(
        (pl.col("target") == target)
        & (pl.col("metric") == metric)
        & (pl.col("commit").is_not_null() | pl.col("alike").is_not_null())
        & pl.col("value").is_finite()
        & ~pl.col("run").is_in(list(but))
    )
    if case is not None:
        chosen = chosen.filter(pl.col("case") == case)
    grouped = (
        chosen.sort("created", "comparison_id", nulls_last=False)
        .unique(("run", "metric"), keep="last", maintain_order=True)
        .sort("time", "run")
        .group_by("target", "case", "metric", pl.coalesce("alike", "arm").alias("who"), "commit", maintain_order=True)
        .agg("value", "error", "samples", "run", "jax", pl.col("arm").first(), pl.col("time").max().alias("latest"))
        .filter(pl.col("value").list.len() >= least)
        .sort("latest", descending=True, nulls_last=True)
    )
    return [
        NoiseGroup(
            **{key: row[key] or "" for key in KEYS},
            values=tuple(row["value"]),
            errors=tuple(row["error"]),
            samples=tuple(row["samples"]),
            runs=tuple(row["run"]),
            jax=tuple(row["jax"]),
        )
        for row in grouped.iter_rows(named=True)
    ]
