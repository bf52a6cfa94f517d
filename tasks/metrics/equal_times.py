"""Finds out from step times whether two logs are of one run: no two runs take equally long at every step."""

import polars as pl

from tasks.metrics.merged_steps import RATE, last_of_each_step

CLOCKS = ("seconds", "step_time_s", "tflops_per_device", RATE)
LEAST_STEPS = 10  # in common: fewer may agree by chance where few digits are printed
LEAST_TIMES = 5  # different ones among them: steps that are all printed alike show nothing


def have_equal_times(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Return whether two tables of steps have the same measured times at every common step.

    Dates, other lines and a missing part of either log do not matter: a log that was cut or edited is still that run's.
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
