"""Parallel calls of a flow: their results are in order, and they end with the flow."""

import threading

import pytest

from tasks.services.running_jobs import Jobs, Stopped, in_lanes


def test_results_come_in_the_order_of_the_calls() -> None:
    second_is_over = threading.Event()

    def first() -> str:
        assert second_is_over.wait(60)
        return "first"

    def second() -> str:
        second_is_over.set()
        return "second"

    assert list(in_lanes([first, second], 2, Jobs())) == ["first", "second"]


def test_a_flow_goes_on_after_it_took_every_result() -> None:
    jobs = Jobs()
    results = in_lanes([lambda: 1, lambda: 2], 2, jobs)
    assert [next(results), next(results)] == [1, 2]
    del results  # closes the generator, which is at its last yield
    jobs.check()


def test_ending_the_flow_ends_its_jobs_and_starts_no_further_call() -> None:
    jobs, began, ended = Jobs(), threading.Event(), threading.Event()

    def work() -> None:
        with jobs.launching("a", ended.set):
            began.set()
            assert ended.wait(60)

    later: list[str] = []
    results = in_lanes([lambda: None, work, lambda: later.append("began")], 1, jobs)
    next(results)
    assert began.wait(60)
    results.close()  # type: ignore[attr-defined] # as an exception in the calling thread does
    assert ended.is_set()
    assert later == []
    with pytest.raises(Stopped):
        jobs.check()
