"""Turns the history into groups of equal runs: how much a metric varies when nothing was changed."""

from collections.abc import Sequence

import polars as pl

from configs.schema import Frozen

KEYS = ("target", "case", "metric", "arm", "commit")


class NoiseGroup(Frozen):
    """The per-run values of one metric from runs that should be equal, oldest first; all tuples have one length."""

    target: str
    case: str
    metric: str
    arm: str  # of ingested runs: as the first of them is called
    commit: str  # empty where the logs do not say it
    values: tuple[float, ...]
    errors: tuple[float | None, ...]  # of each, as a share: what the steps of the run leave open
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
    """Groups of at least `least` different runs of one (target, case, metric, arm, commit), latest group first.

    Ingested runs, whose arms are called in many ways, are grouped by the word of those that are alike. A run that
    several comparisons hold counts once; runs named in `but` (those being judged) are left out, and so are values that
    are no finite numbers and runs without a commit or such a word, which could be of anything.
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
