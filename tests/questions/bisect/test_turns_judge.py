"""A bisection by programs in turns: the real search and the real judge, with planted differences to good."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from configs.verdict_rules import load_verdict_rules
from questions.bisect.bisected_metric import read_metric
from questions.bisect.search import next_action
from questions.bisect.terms import Finish, Line, SearchLimits
from questions.bisect.turns_judge import KEY, TurnsJudge
from tasks.diff.examine.examine_case import CaseRuns
from tasks.records.log_reading import RunReading
from tasks.records.program_times import ProgramTimes, TimeRatio
from tasks.records.run import RunRecord

POINTS, CULPRIT = 17, 11
LINE = Line(weights=(0.0, *[1.0] * (POINTS - 1)), alike=tuple(range(POINTS)))
HALF = 0.008  # of an interval


def make_run(effect: float, *, half: float = HALF, problem: str = "") -> RunRecord:
    ratio = TimeRatio(effect=effect, low=effect - half, high=effect + half)
    times = ProgramTimes(problem=problem, wall=None if problem else ratio, cpu=ratio, step_s=(0.1, 0.1), limit_s=60.0)
    reading = RunReading(name="r", format="maxview", exit_code=0)
    return RunRecord(
        plan=None, arm="a", label="a", commit=None, log="r/log", reading=reading,
        program={KEY: times.model_dump(mode="json")},
    )  # fmt: skip


def make_judge(runs: Mapping[int, Sequence[RunRecord]]) -> TurnsJudge:
    template = CaseRuns(
        comparison="main-vs-branch", case="01_base", target="cpu", runs=(),
        rules=load_verdict_rules("main-vs-branch", "cpu"),
    )  # fmt: skip
    return TurnsJudge(
        read_metric("time"), template, runs, failures={}, past={}, complete=lambda runs: runs
    )  # fmt: skip


def search(truth: Sequence[float], *, seed: int = 0) -> tuple[Finish, dict[int, list[RunRecord]]]:
    rng = np.random.default_rng(seed)
    runs: dict[int, list[RunRecord]] = {}
    for _ in range(100):
        action = next_action(LINE, make_judge(runs), SearchLimits())
        if isinstance(action, Finish):
            return action, runs
        for point in action.points:
            noise = 0.0 if point == 0 else float(rng.normal(0, HALF / 3))
            runs.setdefault(point, []).append(make_run(truth[point] + noise, half=HALF if point else 0.0))
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("seed", range(5))
def test_the_commit_that_slowed_the_program_is_named_from_one_measurement_of_each(seed: int) -> None:
    found, runs = search([0.03 if point >= CULPRIT else 0.0 for point in range(POINTS)], seed=seed)
    assert found.outcome == "found"
    assert found.culprit == CULPRIT
    assert all(len(done) == 1 for done in runs.values())
    assert len(runs) <= 2 + 5  # both ends, and log2(16) commits, one more


def test_equal_programs_end_the_search_at_once() -> None:
    found, runs = search([0.0] * POINTS)
    assert found.outcome == "no difference"
    assert set(runs) == {0, POINTS - 1}


def test_a_quicker_bad_end_is_reported() -> None:
    found, _ = search([0.0 if point < CULPRIT else -0.05 for point in range(POINTS)])
    assert "are --good and --bad swapped?" in found.why


def test_a_program_that_cannot_take_turns_is_skipped() -> None:
    judge = make_judge({0: [make_run(0.0, half=0.0)], 3: [make_run(0.0, problem="its step failed")]})
    assert judge.failed(3) == "its step failed"
    assert judge.compare(0, 3).verdict == "unknown"


def test_two_commits_are_compared_by_their_differences_to_good() -> None:
    judge = make_judge({2: [make_run(0.10)], 5: [make_run(0.155)]})
    found = judge.compare(2, 5)
    assert found.effect == pytest.approx(0.05)
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low < 0.05 - HALF < 0.05 + HALF < found.effect_high  # wider than either
    assert found.verdict == "regressed"
