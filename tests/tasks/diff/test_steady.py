"""Step times taken apart."""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.diff.arms import step_table
from tasks.diff.steady import Steady, steady
from tasks.records import RunReading, RunRecord, Stall

type MakeRun = Callable[..., RunRecord]


def stalls(**causes: int) -> dict[str, Any]:
    return {
        "stalls": tuple(Stall(step=step, seconds=0.0, cause=cause, line=1, offset=0) for cause, step in causes.items())
    }


@pytest.fixture
def state_of(make_run: MakeRun) -> Callable[..., Steady | None]:
    def state(seconds: Sequence[float | None], **more: Any) -> Steady | None:
        run = make_run("linen", seconds=seconds, losses=[1.0] * len(seconds), **more)
        return steady(run, step_table(run))

    return state


def test_the_first_step_is_not_part_of_it(state_of: Callable[..., Steady | None]) -> None:
    state = state_of((50.0, 1.0, 2.0, 3.0))
    assert state is not None
    assert (state.steps, state.median_s) == (3, 2.0)


def test_few_stalls_do_not_move_the_median_but_add_up(state_of: Callable[..., Steady | None]) -> None:
    state = state_of((50.0, 1.0, 20.0, 1.0, 1.0, 1.0, 30.0), reading=stalls(checkpoint=2, unexplained=6))
    assert state is not None
    assert (state.median_s, state.spread_s, state.stall_s, state.stalls) == (1.0, 0.0, 48.0, 2)


def test_a_dispatch_artefact_is_paid_back_and_costs_nothing(state_of: Callable[..., Steady | None]) -> None:
    state = state_of((9.0, 1.0, 1.9, 0.1, 1.0, 1.0), reading=stalls(dispatch=2))
    assert state is not None
    assert (state.stall_s, state.stalls) == (0.0, 0)
    assert state.spread_s == pytest.approx(0.225)  # quartiles of 0.1, 1, 1, 1


def test_the_spread_is_that_of_calm_steps(state_of: Callable[..., Steady | None]) -> None:
    state = state_of((9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 99.0), reading=stalls(checkpoint=6))
    assert state is not None
    assert state.spread_s == 2.0  # 1 to 5 has its quartiles at 2 and 4


@pytest.mark.parametrize(
    "seconds", [(), (1.0,), (1.0, 2.0), (1.0, 2.0, None), (1.0, 2.0, float("nan")), (1.0, 2.0, float("inf"))]
)
def test_fewer_than_two_steps_after_the_first_are_no_state(
    seconds: Sequence[float | None], state_of: Callable[..., Steady | None]
) -> None:
    assert state_of(seconds) is None


def test_a_first_step_without_a_time_is_still_the_first(state_of: Callable[..., Steady | None]) -> None:
    state = state_of((None, 1.0, 2.0))
    assert state is not None
    assert (state.steps, state.median_s) == (2, 1.5)


def test_all_steps_stalled(state_of: Callable[..., Steady | None]) -> None:
    state = state_of((9.0, 5.0, 7.0), reading=stalls(checkpoint=1, unexplained=2))
    assert state is not None
    assert (state.median_s, state.spread_s, state.stall_s) == (6.0, 0.0, 1.0)


def test_times_of_the_metrics_file_are_preferred(make_run: MakeRun) -> None:
    run = make_run("linen", seconds=(3.0, 9.0, 9.0, 9.0, 9.0, 9.0), exact=True)
    state = steady(run, step_table(run))
    assert state is not None
    assert state.median_s == 0.1  # of the trainer's own lines, not the log's 9 s


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=20), st.randoms())
def test_the_order_of_the_steps_after_the_first_does_not_matter(seconds: list[float], random: Any) -> None:
    shuffled = [seconds[0], *random.sample(seconds[1:], len(seconds) - 1)]
    run = RunRecord.model_construct(reading=RunReading(name="r", format="maxtext"))
    tables = [pl.DataFrame({"step": range(len(values)), "seconds": values}) for values in (seconds, shuffled)]
    assert steady(run, tables[0]) == steady(run, tables[1])
