"""The step time of the program is judged by turns; runs are judged for what the program does not explain."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tasks.diff.judge.program_time_rows import NO_PROGRAM
from tasks.records.compared_case import ComparisonRecord
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], Any]

LOSSES = [9.0 - n / 100 for n in range(41)]
PROGRAM, RUN = "program_step_s", "step_time_s"


def turns(effect: float, half: float) -> ProgramTimes:
    ratio = TimeRatio(effect=effect, low=effect - half, high=effect + half)
    return ProgramTimes(wall=ratio, cpu=ratio, step_s=(0.1, 0.1), draws=12, rounds=100, steps=(100, 100), limit_s=60.0)


@pytest.fixture
def compared(make_run: MakeRun, compare: Compare) -> Callable[..., ComparisonRecord]:
    """compared(slower, turns): three runs of each, whose candidate takes `slower` × as long ± 0.1 %."""

    def make(
        slower: float, found: ProgramTimes | None, *, noise: float = 0.001, runs: int = 3, planned: bool = True
    ) -> ComparisonRecord:
        rng = np.random.default_rng(5)
        sides = [
            [
                make_run(
                    arm,
                    plan={} if planned else None,
                    repeat=n,
                    losses=LOSSES,
                    seconds=list(by * 0.1 * np.exp(rng.normal(0, noise)) * np.ones(41)),
                )
                for n in range(runs)
            ]
            for arm, by in (("linen", 1.0), ("nnx", slower))
        ]
        return compare(*sides, turns=found)

    return make


def test_a_slower_program_regresses_and_the_headline_says_which(
    compared: Callable[..., ComparisonRecord], row_of: RowOf
) -> None:
    record = compared(1.03, turns(0.03, 0.005), noise=0.02, runs=1)
    assert row_of(record, PROGRAM).verdict == "regressed"
    assert record.verdict == "regressed"
    assert "Step time of the program +3.0 % regressed" in record.headline


def test_noisy_runs_of_equal_programs_are_not_asked_for_more(
    compared: Callable[..., ComparisonRecord], row_of: RowOf
) -> None:
    alone = row_of(compared(1.0, None, noise=0.02, runs=1), RUN)
    assert alone.verdict == "unknown"  # the runs do not decide
    record = compared(1.0, turns(0.001, 0.004), noise=0.02, runs=1)
    row = row_of(record, RUN)
    assert row_of(record, PROGRAM).verdict == "same"
    assert row.verdict == "not judged"
    assert row.runs_wanted is None
    assert "program equal +0.1 %" in row.reason
    assert record.verdict == "same"


def test_a_slower_host_loop_is_found_by_runs_beside_equal_programs(
    compared: Callable[..., ComparisonRecord],
    row_of: RowOf,
    wording: Wording,
) -> None:
    record = compared(2.5, turns(0.001, 0.004), runs=5)
    assert row_of(record, RUN).verdict == "regressed"
    assert record.verdict == "regressed"
    assert "host loop" in record.headline
    assert "program equal" in row_of(record, RUN).reason
    wording("reasons", record.headline)


def test_what_the_program_explains_is_reported_once(compared: Callable[..., ComparisonRecord], row_of: RowOf) -> None:
    record = compared(2.0, turns(1.0, 0.02), runs=5)
    assert row_of(record, PROGRAM).verdict == "regressed"
    assert row_of(record, RUN).verdict == "not judged"
    assert "explains the runs'" in row_of(record, RUN).reason


def test_undecided_turns_leave_the_verdict_to_the_runs(
    compared: Callable[..., ComparisonRecord], row_of: RowOf
) -> None:
    record = compared(1.0, turns(0.01, 0.03), noise=0.02, runs=1)
    assert row_of(record, PROGRAM).verdict == "unknown"
    assert "--interleave 5m" in row_of(record, PROGRAM).reason
    assert row_of(record, RUN).verdict == "unknown"


def test_runs_decide_where_turns_did_not(compared: Callable[..., ComparisonRecord], row_of: RowOf) -> None:
    record = compared(2.5, turns(0.01, 0.03), runs=5)
    assert row_of(record, PROGRAM).verdict == "not judged"
    assert record.verdict == "regressed"


def test_turns_that_failed_say_why_and_runs_are_judged(
    compared: Callable[..., ComparisonRecord],
    row_of: RowOf,
    wording: Wording,
) -> None:
    record = compared(2.5, ProgramTimes(problem="nnx: out of memory"), runs=5)
    assert not [row for row in record.rows if row.metric == PROGRAM]
    assert row_of(record, RUN).verdict == "regressed"
    assert ": nnx: out of memory" in row_of(record, RUN).reason
    wording("reasons", row_of(record, RUN).reason)


@pytest.mark.parametrize(("slower", "is_said"), [(1.015, True), (2.5, False)])
def test_an_undecided_time_of_logs_says_that_they_hold_no_program(
    compared: Callable[..., ComparisonRecord], row_of: RowOf, slower: float, is_said: bool
) -> None:
    row = row_of(compared(slower, None, runs=1 if is_said else 5, planned=False), RUN)
    assert (row.verdict == "unknown") == is_said
    assert (NO_PROGRAM in row.reason) == is_said
