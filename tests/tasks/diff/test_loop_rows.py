"""The time of a step as it runs is decided by both loops in turns; the program's part and the host's are beside it."""

from collections.abc import Callable
from typing import Any

import pytest

from tasks.diff.judge.loop_rows import LOOPS
from tasks.records.compared_case import ComparisonRecord
from tasks.records.log_reading import Environment
from tasks.records.loop_times import LoopTimes
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.records.run import RunRecord

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], Any]

CPU = {"environment": Environment(device_kind="cpu", backend="cpu", num_devices=1)}
LOSSES = [9.0 - n / 100 for n in range(41)]
PROGRAM, STEP, HOST = "program_step_s", "step_time_s", "host_step_s"


def ratio(low: float, high: float) -> TimeRatio:
    return TimeRatio(effect=(low + high) / 2, low=low, high=high)


def turned(low: float, high: float) -> LoopTimes:
    """Two loops of 100 ms, whose difference lies between `low` and `high`."""
    one = ratio(low, high)
    return LoopTimes(wall=one, cpu=one, step_s=(0.1, 0.1), cpu_s=(0.1, 0.1), rounds=24, steps=120, limit_s=60.0)


@pytest.fixture
def compared(make_run: MakeRun, compare: Compare) -> Callable[..., ComparisonRecord]:
    """compared(slower, evidence): one run of each on a processor, whose candidate takes `slower` × as long."""

    def make(slower: float, **evidence: Any) -> ComparisonRecord:
        sides = [
            [make_run(arm, losses=LOSSES, seconds=[by * 0.1] * 41, plan={}, reading=CPU)]
            for arm, by in (("linen", 1.0), ("nnx", slower))
        ]
        return compare(*sides, **evidence)

    return make


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.02, 0.03, "same"),  # ±5 % on a processor
        (0.03, 0.08, "regressed"),
        (-0.08, -0.03, "improved"),
        (-0.02, 0.09, "unknown"),
        (0.001, 0.009, "same"),  # two processes differ by as much
    ],
)
def test_loops_decide_a_step_time_that_one_run_leaves_open(
    low: float, high: float, verdict: str, compared: Callable[..., ComparisonRecord], row_of: RowOf
) -> None:
    assert row_of(compared(1.02), STEP).verdict == "unknown"
    row = row_of(compared(1.02, loops=turned(low, high)), STEP)
    assert row.verdict == verdict
    assert (row.evidence, row.effect_low, row.effect_high) == (LOOPS, low, high)
    assert (row.baseline, row.candidate) == pytest.approx((0.1, 0.1 * (1 + (low + high) / 2)))
    assert "120 steps of each in 24 rounds" in row.reason
    if verdict != "unknown":  # values and difference are of one measurement
        assert (row.baseline, row.candidate) == pytest.approx((0.1, 0.1 * (1 + (low + high) / 2)))


def test_what_runs_have_decided_stays(compared: Callable[..., ComparisonRecord], row_of: RowOf) -> None:
    found = compared(3.0)
    assert row_of(found, STEP).verdict == "regressed"
    assert row_of(compared(3.0, loops=turned(-0.01, 0.01)), STEP).verdict == "regressed"


def test_a_problem_is_told_and_runs_are_judged_as_before(
    compared: Callable[..., ComparisonRecord], row_of: RowOf
) -> None:
    row = row_of(compared(1.02, loops=LoopTimes(problem="nnx died in its turn with exit code 1")), STEP)
    assert row.verdict == "unknown"
    assert row.reason.endswith("; nnx died in its turn with exit code 1")


def test_the_host_is_the_loop_less_the_program(compared: Callable[..., ComparisonRecord], row_of: RowOf) -> None:
    part = ratio(-0.01, 0.01)
    turns = ProgramTimes(wall=part, cpu=part, step_s=(0.09, 0.09), draws=12, rounds=99, steps=(99, 99), limit_s=60.0)
    found = compared(1.02, loops=turned(0.05, 0.07), turns=turns)
    row = row_of(found, HOST)
    # 6 ms ± 1 ms of the loop, ± 0.9 ms of the program: their root of squares is 1.35 ms
    assert (row.baseline, row.candidate) == pytest.approx((0.01, 0.016))
    assert row.reason.startswith("+6 ms (+4.65 … +7.35) per step")
    assert row_of(found, STEP).verdict == "regressed"
    assert row_of(found, PROGRAM).verdict == "same"
    assert not [row for row in compared(1.02, loops=turned(0.05, 0.07)).rows if row.metric == HOST]
