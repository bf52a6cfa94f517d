"""Groups the rows of the history into series: the values of one metric of one case over time, per arm and as ratio."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from configs.schema import Frozen

KEYS = ("comparison", "pair", "case", "target", "metric")


class Night(Frozen):
    """The values of one metric in one comparison: each arm's median over its runs. None: missing or unknown."""

    comparison_id: str
    time: datetime | None  # start of the first run
    baseline: float | None
    candidate: float | None
    runs: tuple[int, int]  # number of runs of the baseline and of the candidate
    baseline_commit: str | None
    candidate_commit: str | None
    baseline_jax: str | None
    candidate_jax: str | None
    verdict: str | None
    same_program: bool  # as in HISTORY_SCHEMA

    @property
    def ratio(self) -> float | None:
        """The candidate's value divided by the baseline's; None if one is missing or the baseline is 0."""
        if self.baseline is None or self.candidate is None or not self.baseline:
            return None
        return self.candidate / self.baseline


class Series(Frozen):
    """The values of one metric over time, for one comparison, pair of refs, case and target."""

    comparison: str
    pair: str = ""  # "main → feat/x"; empty in rows of older versions
    case: str
    target: str
    metric: str
    unit: str
    better: str
    baseline_arm: str
    candidate_arm: str
    nights: tuple[Night, ...]  # the oldest first


def find_series(
    history: pl.DataFrame,
    *,
    case: str | None = None,
    metrics: Sequence[str] = (),
    target: str | None = None,
    since: datetime | None = None,
) -> list[Series]:
    """Return the matching series, sorted by comparison, pair of refs, case, target and metric.

    Omits runs that no comparison contains. Arguments that are None or empty do not restrict the series.
    """
    chosen = history.filter(~pl.col("comparison_id").str.starts_with("run-"), pl.col("value").is_finite())
    chosen = chosen.with_columns(pl.col("pair").fill_null(""))
    if case is not None:
        chosen = chosen.filter(pl.col("case") == case)
    if target is not None:
        chosen = chosen.filter(pl.col("target") == target)
    if metrics:
        chosen = chosen.filter(pl.col("metric").is_in(list(metrics)))
    if since is not None:
        chosen = chosen.filter(pl.col("time") >= since)
    sides = (
        chosen.group_by([*KEYS, "comparison_id", "role"], maintain_order=True)
        .agg(
            pl.col("time").min(),
            pl.col("value").median(),
            pl.len().alias("runs"),
            pl.col("arm", "commit", "jax", "verdict", "same_program", "unit", "better").first(),
        )
        .sort([*KEYS, "time", "comparison_id"], maintain_order=True)
    )
    found = []
    for keys, rows in sides.group_by(KEYS, maintain_order=True):
        found.append(_series(dict(zip(KEYS, map(str, keys), strict=True)), rows))
    return found


def _series(keys: dict[str, str], rows: pl.DataFrame) -> Series:
    nights: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        nights.setdefault(row["comparison_id"], {})[row["role"]] = row
    last = rows.row(-1, named=True)
    arms = {row["role"]: row["arm"] for row in rows.iter_rows(named=True)}  # names in the newest rows
    return Series(
        **keys,
        unit=last["unit"] or "",
        better=last["better"] or "equal",
        baseline_arm=arms.get("baseline", ""),
        candidate_arm=arms.get("candidate", ""),
        nights=tuple(_night(id, night) for id, night in nights.items()),
    )


def _night(id: str, sides: dict[str, dict[str, Any]]) -> Night:
    left, right = sides.get("baseline", {}), sides.get("candidate", {})
    either = left or right
    times = [side["time"] for side in (left, right) if side and side["time"] is not None]
    return Night(
        comparison_id=id,
        time=min(times, default=None),
        baseline=left.get("value"),
        candidate=right.get("value"),
        runs=(left.get("runs", 0), right.get("runs", 0)),
        baseline_commit=left.get("commit"),
        candidate_commit=right.get("commit"),
        baseline_jax=left.get("jax"),
        candidate_jax=right.get("jax"),
        verdict=either["verdict"],
        same_program=bool(either["same_program"]),
    )
