"""The growth of memory: a leak grows in most steps, an allocator's arenas in a few."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from tasks.metrics.memory_metrics import DEVICE_GROWTH, HOST_GROWTH, HOST_PEAK, steady_growth
from tasks.records.run import RunRecord
from tasks.records.run_facts import Measured

MIB = 2**20


@pytest.mark.parametrize(
    ("values", "growth"),
    [
        ([100.0 + 5 * n for n in range(18)], 5.0),
        ([100.0] * 18, 0.0),
        ([100.0] * 4 + [400.0] * 14, 0.0),  # one allocation
        ([100.0] * 4 + [400.0] * 9 + [428.0] * 5, 0.0),  # two of them: a tenth of 17 steps, rounded up
        ([900.0 - 3 * n for n in range(18)], -3.0),
        ([100.0 + 28 * (n // 2) for n in range(18)], 28 * 6 / 13),  # an arena of 28 in 8 of 17 steps: 6 of 13 are left
    ],
)
def test_the_growth_without_jumps(values: Sequence[float], growth: float) -> None:
    assert steady_growth(np.array(values)) == pytest.approx(growth)


def with_column(make: Callable[..., RunRecord], name: str, values: Sequence[float | None]) -> RunRecord:
    steps = range(len(values))
    return make(record={"metrics": pl.DataFrame({"step": steps, name: values}, strict=False)})


def value_of(metric: Any, *runs: RunRecord) -> Measured:
    return metric.of_runs(runs, [])


def test_a_leak_is_given_in_mib_per_step(make_run: Callable[..., RunRecord]) -> None:
    run = with_column(make_run, "host_memory_b", [500 * MIB, 700 * MIB, *[(700 + 5 * n) * MIB for n in range(18)]])
    assert value_of(HOST_GROWTH, run) == Measured(value=5.0, text="5.000", samples=18)
    assert value_of(DEVICE_GROWTH, run) == Measured()


@pytest.mark.parametrize("values", [[1.0] * 9, [1.0] * 11 + [None], []])
def test_few_steps_or_gaps_have_no_growth(values: list[float | None], make_run: Callable[..., RunRecord]) -> None:
    assert value_of(HOST_GROWTH, with_column(make_run, "host_memory_b", values)).value is None


def test_the_peak_is_the_trainers_else_the_supervisors(make_run: Callable[..., RunRecord]) -> None:
    own = with_column(make_run, "host_memory_peak_b", [2.0**29, 2.0**30])
    assert value_of(HOST_PEAK, own.replace(host_peak_b=2**33)).text == "1.000"
    assert value_of(HOST_PEAK, make_run(record={"host_peak_b": 2**31})).text == "2.000"
    assert value_of(HOST_PEAK, make_run()).text == ""


def test_an_arm_shows_the_median_of_its_runs(make_run: Callable[..., RunRecord]) -> None:
    runs = [make_run(record={"host_peak_b": gib * 2**30}) for gib in (3, 1, 2)]
    assert value_of(HOST_PEAK, *runs).value == 2.0
    assert value_of(HOST_PEAK, *runs, make_run()).value is None
