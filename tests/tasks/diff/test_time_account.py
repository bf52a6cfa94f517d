"""Where the time of a run went."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.metrics.time_account import account_death, account_run
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.log_reading import Stall, Wait
from tasks.records.run import RunRecord
from tasks.records.run_facts import TimeAccount
from tasks.records.shared_fields import Source

UNHURRIED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)

type MakeRun = Callable[..., RunRecord]


def stall(step: int, cause: str, seconds: float) -> Stall:
    return Stall(step=step, seconds=seconds, cause=cause, line=100 + step, offset=10 * (100 + step))


@pytest.fixture
def account(make_run: MakeRun) -> Callable[..., TimeAccount | None]:
    """account(seconds, stalls, …): of one run; its length is unknown by default."""

    def build(seconds: Sequence[float], stalls: Sequence[tuple[int, str]] = (), **reading: Any) -> TimeAccount | None:
        found = tuple(stall(step, cause, seconds[step]) for step, cause in stalls)
        given = {"stalls": found, "started": None, "ended": None} | reading
        return account_run(make_run("linen", seconds=seconds, losses=[1.0] * len(seconds), reading=given))

    return build


def seconds_of(account: TimeAccount | None) -> dict[str, float]:
    assert account is not None
    return {part.part: pytest.approx(part.seconds) for part in account.parts}


def test_every_cause_has_a_part(account: Callable[..., TimeAccount | None]) -> None:
    found = account(
        (50.0, 1.0, 1.0, 21.0, 1.0, 6.0, 1.0, 1.0, 4.0, 1.0),
        [(0, "compile"), (3, "checkpoint"), (5, "profiler"), (8, "checkpoint")],
    )
    # the steady median is 1: ten steps of computation; the excess belongs to the causes
    assert seconds_of(found) == {"compute": 10.0, "compile": 49.0, "checkpoint": 23.0, "profiler": 5.0}
    assert found is not None
    assert found.total_s == 87.0
    checkpoint = next(part for part in found.parts if part.part == "checkpoint")
    assert (checkpoint.steps, checkpoint.share) == (2, pytest.approx(23 / 87))
    assert checkpoint.source == Source(line=103, offset=1030)  # of the longer of the two


def test_dispatch_and_compute_together_are_the_computing_time(account: Callable[..., TimeAccount | None]) -> None:
    found = account((1.0, 1.0, 1.0, 1.9, 0.1, 1.0, 1.0), [(3, "dispatch")])
    assert seconds_of(found) == {"compute": 6.1, "dispatch": 0.9}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # 10:00:00 to 10:01:00; the first line at :20 after 5 s of its step, the last at :50
        (("2026-11-18T10:00:20", "2026-11-18T10:00:50"), {"start": 15.0, "between": 27.0, "end": 10.0}),
        (("2026-11-18T10:00:20", "2026-11-18T10:01:00.7"), {"start": 15.0, "between": 37.0}),  # ends are whole seconds
        ((None, None), {"outside": 52.0}),
        (("2026-11-18T09:00:00", "2026-11-18T10:00:50"), {"outside": 52.0}),  # another clock
    ],
)
def test_time_outside_of_the_steps(
    times: tuple[str | None, str | None], expected: dict[str, float], make_run: MakeRun
) -> None:
    whole = {"started": "2026-11-18T10:00:00+00:00", "ended": "2026-11-18T10:01:00+00:00", "stalls": ()}
    run = make_run(
        "linen",
        seconds=(5.0, 1.0, 1.0, 1.0),
        losses=[1.0] * 4,
        columns={"time": [times[0], None, None, times[1]]},
        reading=whole,
    )
    found = account_run(run)
    assert seconds_of(found) == {"compute": 8.0} | expected
    assert found is not None
    assert found.total_s == 60.0


@pytest.mark.parametrize(
    ("seconds", "times", "expected"),
    [
        ((), [], {"start": 60.0}),
        # 5 s of a step whose line is at :20, and nothing after it until 10:01:00
        ((5.0,), ["2026-11-18T10:00:20"], {"first steps": 5.0, "start": 15.0, "end": 40.0}),
        ((5.0,), [None], {"first steps": 5.0, "outside": 55.0}),
    ],
)
def test_a_run_that_died_before_it_was_steady_is_shown_up_to_its_end(
    seconds: tuple[float, ...], times: list[str | None], expected: dict[str, float], make_run: MakeRun
) -> None:
    end = {"started": "2026-11-18T10:00:00+00:00", "ended": "2026-11-18T10:01:00+00:00", "stalls": (), "exit_code": 1}
    made: dict[str, Any] = {"seconds": seconds, "losses": [1.0] * len(seconds), "columns": {"time": times}}
    run = make_run("linen", reading=end, **made)
    assert account_run(run) is None
    assert seconds_of(account_death(run)) == expected
    assert account_death(make_run("linen", reading=end | {"exit_code": 0}, **made)) is None  # it did not die
    assert account_death(make_run("linen", reading=end | {"ended": None}, **made)) is None  # the end is unknown


def wait(part: str, seconds: float, offset: int) -> Wait:
    return Wait(part=part, seconds=seconds, line=offset // 10, offset=offset)


@pytest.mark.parametrize(
    ("times", "deferred", "expected"),
    [
        # the steps' lines are at 1000, 1010, 1020, 1030; 52 of the 60 s are outside of them
        (("2026-11-18T10:00:20", "2026-11-18T10:00:50"), False,
         {"start": 15.0, "waits for saves": 20.0, "wait at the end": 9.0, "between": 7.0, "end": 1.0}),
        # the first line came after the second step
        (("2026-11-18T10:00:20", "2026-11-18T10:00:50"), True,
         {"start": 14.0, "waits for saves": 20.0, "wait at the end": 9.0, "between": 8.0, "end": 1.0}),
        # the log reports more waiting than the rest
        (("2026-11-18T10:00:20", "2026-11-18T10:00:30"), False,
         {"start": 15.0, "waits for saves": 7.0, "wait at the end": 9.0, "end": 21.0}),
        ((None, None), False, {"waits for saves": 20.0, "wait at the end": 9.0, "outside": 23.0}),
    ],
)  # fmt: skip
def test_waits_in_the_log_are_subtracted_from_the_rest(
    times: tuple[str | None, str | None], deferred: bool, expected: dict[str, float], make_run: MakeRun
) -> None:
    whole = {
        "started": "2026-11-18T10:00:00+00:00", "ended": "2026-11-18T10:01:00+00:00", "stalls": (),
        "deferred": deferred, "waits": (wait("waits for saves", 15.0, 1025), wait("waits for saves", 5.0, 1027),
                                        wait("wait at the end", 9.0, 1050)),
    }  # fmt: skip
    columns = {"time": [times[0], None, None, times[1]]}
    run = make_run("linen", seconds=(5.0, 1.0, 1.0, 1.0), losses=[1.0] * 4, columns=columns, reading=whole)
    found = account_run(run)
    assert seconds_of(found) == {"compute": 8.0} | expected
    assert found is not None
    assert found.total_s == 60.0
    waited = next(part for part in found.parts if part.part == "waits for saves")
    assert waited.source == Source(line=102, offset=1025)  # the longest of them


def test_too_few_steps_have_no_account(account: Callable[..., TimeAccount | None]) -> None:
    assert account((9.0, 1.0)) is None


CAUSES = ["compile", "checkpoint", "dispatch", "eval", "unexplained", "a cause of tomorrow"]


@given(
    seconds=st.lists(st.floats(0.001, 1e4), min_size=3, max_size=20),
    stalls=st.lists(st.tuples(st.integers(0, 19), st.sampled_from(CAUSES)), max_size=6, unique_by=lambda s: s[0]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=UNHURRIED)
def test_the_parts_add_up(
    seconds: list[float], stalls: list[tuple[int, str]], account: Callable[..., TimeAccount | None]
) -> None:
    found = account(seconds, [(step, cause) for step, cause in stalls if step < len(seconds)])
    assert found is not None
    assert sum(part.seconds for part in found.parts) == pytest.approx(sum(seconds))
    assert all(part.seconds >= 0 for part in found.parts)
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)


def test_stalls_have_a_row_that_names_each_cause(
    make_run: MakeRun, compare: Callable[..., ComparisonRecord], row_of: Callable[[ComparisonRecord, str], MetricDiff]
) -> None:
    def run(repeat: int, *stalls: Stall) -> RunRecord:
        seconds = (3.0, 1.0, 5.0, 1.0, 3.0, 1.0)
        return make_run("linen", seconds=seconds, repeat=repeat, reading={"stalls": stalls})

    left = [run(n, stall(2, "checkpoint", 5.0), stall(4, "eval", 3.0)) for n in range(2)]
    right = make_run("nnx", seconds=(3.0, 1.0, 1.0, 1.0, 4.0, 1.0), reading={"stalls": (stall(4, "eval", 4.0),)})
    record = compare(left, right)
    texts = {
        row.metric: (row.baseline_text, row.candidate_text) for row in record.rows if row.metric.startswith("stall")
    }
    assert texts == {"stall_s": ("6.0 (2 × checkpoint, 2 × eval in 2 runs)", "3.0 (1 × eval)")}
    assert row_of(record, "stall_s").difference == pytest.approx(-3.0)
    assert row_of(record, "stall_s").verdict == "not judged"
    assert [account.arm for account in record.times] == ["linen", "linen", "nnx"]
