"""Takes step times apart: the steady state, and what stands out of it."""

import polars as pl

from configs.schema import Frozen
from tasks.records import RunRecord

LEAST_STEPS = 2  # after the first


class Steady(Frozen):
    """Step times of one run in seconds, without its first step.

    The median is over every step but the first: half the steps would have to be stalls to move it. The spread is the
    distance between the quartiles of the steps that are not listed as stalls.
    """

    steps: int
    median_s: float
    spread_s: float
    stall_s: float  # time above the median, summed over the stalls
    stalls: int


def steady(run: RunRecord, table: pl.DataFrame) -> Steady | None:
    """The steady state of one run out of its (step, seconds); None with fewer than two steps after the first."""
    if table.is_empty():
        return None
    after_first = table.filter(pl.col("seconds").is_finite() & (pl.col("step") > table["step"].min())).sort("step")
    if after_first.height < LEAST_STEPS:
        return None
    median = after_first["seconds"].median()
    assert isinstance(median, float)  # a non-empty column of floats
    listed = {stall.step: stall.cause for stall in run.reading.stalls if stall.cause != "compile"}
    lost = [step for step, cause in listed.items() if cause != "dispatch"]  # a dispatch stall is paid back at once
    stalls = after_first.filter(pl.col("step").is_in(lost) & (pl.col("seconds") > median))
    calm = after_first.filter(~pl.col("step").is_in(list(listed)))["seconds"]
    upper, lower = calm.quantile(0.75, "linear"), calm.quantile(0.25, "linear")
    return Steady(
        steps=after_first.height,
        median_s=median,
        spread_s=0.0 if upper is None or lower is None else upper - lower,
        stall_s=float((stalls["seconds"] - median).sum()),
        stalls=stalls.height,
    )
