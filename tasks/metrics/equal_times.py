"""Detects two logs of the same run by their step times: two different runs never take equally long at every step."""

import polars as pl

from tasks.metrics.merged_steps import RATE, last_of_each_step

CLOCKS = ("seconds", "step_time_s", "tflops_per_device", RATE)
LEAST_STEPS = 10  # common steps: fewer may agree by chance if few digits are printed
LEAST_TIMES = 5  # different times among the common steps: equal times at all steps prove nothing


def have_equal_times(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Return whether two tables of steps have the same measured times at every common step.

    Other lines, dates and missing parts of a log are ignored, so that a cut or edited copy is recognised too.
    """
    clocks = [
        name for name in CLOCKS if all(name in table and table.schema[name].is_numeric() for table in (one, other))
    ]
    both = (
        last_of_each_step(one)
        .select("step", *clocks)
        .join(last_of_each_step(other).select("step", *clocks), on="step", how="inner", suffix="_other")
    )
    if both.height < LEAST_STEPS or both.select(clocks).n_unique() < LEAST_TIMES:
        return False
    return all(both[name].eq_missing(both[f"{name}_other"]).all() for name in clocks)
