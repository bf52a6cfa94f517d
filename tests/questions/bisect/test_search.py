"""The search for a culprit over simulated runs, judged by the real verdict rule; the planted change is the expected
result.
"""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from questions.bisect.search import next_action
from questions.bisect.terms import Finish, Line, SearchLimits
from tasks.records.compared_case import Decision

pytestmark = pytest.mark.long

spec = importlib.util.spec_from_file_location("simulated", Path(__file__).parent / "simulated.py")
assert spec is not None
assert spec.loader is not None
simulated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulated)

POINTS = 33
EVERY = Line(weights=(0.0, *[1.0] * (POINTS - 1)), alike=tuple(range(POINTS)))
SIGMA = simulated.TPU.scale / 2**0.5  # of one run


class ExactJudge:
    """A metric without noise: each point has a name; equal names are equal values."""

    judges_time = False

    def __init__(self, truth: str) -> None:
        self.truth = truth
        self.done: dict[int, int] = {}

    def train(self, point: int) -> None:
        self.done[point] = self.done.get(point, 0) + 1

    def runs(self, point: int) -> int:
        return 0 if self.truth[point] == "x" else self.done.get(point, 0)

    def failed(self, point: int) -> str:
        return "does not compile" if self.truth[point] == "x" and self.done.get(point) else ""

    def compare(self, before: int, after: int, *, runs: int | None = None, shares: int = 1) -> Decision:
        left, right = self.truth[before], self.truth[after]
        return Decision(
            verdict="same" if left == right else "regressed" if right > left else "improved", reason=left + right
        )


def search(judge: Any, line: Line = EVERY, limits: SearchLimits | None = None) -> Finish:
    for _ in range(200):
        action = next_action(line, judge, limits or SearchLimits())
        if isinstance(action, Finish):
            return action
        for point in action.points:
            judge.train(point)
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("culprit", [1, 2, 15, 16, 31, 32])
def test_an_exact_change_is_found_with_one_run_of_each_commit(culprit: int) -> None:
    judge = ExactJudge("a" * culprit + "b" * (POINTS - culprit))
    found = search(judge)
    assert (found.outcome, found.culprit, found.before) == ("found", culprit, culprit - 1)
    assert len(judge.done) <= 2 + 5  # both ends, and the logarithm of 32
    assert set(judge.done.values()) == {1}


def test_an_uncompilable_commit_is_skipped_and_a_range_is_reported_if_it_may_be_the_culprit() -> None:
    found = search(ExactJudge("a" * 10 + "xxx" + "b" * 20))
    assert (found.outcome, found.suspects) == ("range", (10, 11, 12, 13))
    elsewhere = search(ExactJudge("a" * 10 + "b" * 3 + "xxx" + "b" * 17))
    assert (elsewhere.outcome, elsewhere.culprit) == ("found", 10)


def test_a_second_change_is_reported_with_its_sign() -> None:
    found = search(ExactJudge("a" * 10 + "c" * 10 + "b" * 13))
    assert found.culprit == 10
    assert any("opposite sign" in note and "{10}" in note for note in found.notes)


def test_a_change_that_comes_and_goes_twice_is_reported() -> None:
    found = search(ExactJudge("a" * 4 + "b" * 13 + "a" * 4 + "b" * 12))
    assert found.outcome == "found"
    truth = "a" * 4 + "b" * 13 + "a" * 4 + "b" * 12
    assert truth[found.culprit - 1] == "a"  # type: ignore[operator]
    assert truth[found.culprit] == "b"  # type: ignore[index]


def test_a_revert_in_the_source_moves_the_good_end() -> None:
    truth = "a" * 4 + "b" * 13 + "a" * 4 + "b" * 12
    alike = tuple(0 if kind == "a" else point for point, kind in enumerate(truth))
    weights = tuple(0.0 if point == 0 or truth[point] == truth[point - 1] else 1.0 for point in range(POINTS))
    found = search(ExactJudge(truth), Line(weights=weights, alike=alike))
    assert found.culprit == 21  # its second occurrence
    assert any("again" in note for note in found.notes)


@pytest.mark.parametrize("size", [0.02, 0.05])
def test_a_slower_step_is_found_despite_the_noise(size: float) -> None:
    random = np.random.default_rng(7)
    wrong = right = 0
    for _ in range(25):
        culprit = int(random.integers(1, POINTS))
        judge = simulated.SimulatedTimes(simulated.step(size, culprit), lambda: SIGMA * float(random.standard_t(10)))
        found = search(judge)
        right += found.culprit == culprit
        wrong += found.culprit not in (None, culprit)
    assert wrong == 0
    assert right >= 23


def test_two_clock_states_name_no_commit_without_a_change() -> None:
    """Two of five runs are slower by 3 %, which the stated noise does not know."""
    random = np.random.default_rng(12)
    for _ in range(25):
        judge = simulated.SimulatedTimes(
            [0.0] * POINTS, lambda: SIGMA * float(random.standard_t(10)) + (0.03 if random.random() < 0.4 else 0.0)
        )
        for point in (0, POINTS - 1) * 3:
            judge.train(point)
        assert search(judge).culprit is None


def test_a_slowed_run_of_good_hides_no_change() -> None:
    judge = simulated.SimulatedTimes(simulated.step(0.02, 9), lambda: 0.0)
    slowed = iter([0.02, *[0.001, -0.001] * 200])  # the first run of good is as slow as bad
    judge.draw = lambda: next(slowed)
    found = search(judge)
    assert (found.outcome, found.culprit) == ("found", 9)


def test_a_slowed_run_of_the_suspect_names_no_other_commit() -> None:
    """It widens the scatter of the suspect's runs: the rule may stay undecided, and the range contains the commit."""
    random = np.random.default_rng(13)
    judge = simulated.SimulatedTimes(simulated.step(0.02, 12), lambda: SIGMA * float(random.standard_t(10)))
    for point in (0, 32, 11, 12, 12):
        judge.train(point)
    judge.values[12][1] += 0.045
    found = search(judge)
    assert 12 in (found.culprit, *found.suspects)
    assert found.culprit in (12, None)


def test_nothing_is_named_without_a_planted_change() -> None:
    random = np.random.default_rng(8)
    named = 0
    for _ in range(50):
        judge = simulated.SimulatedTimes([0.0] * POINTS, lambda: SIGMA * float(random.standard_t(10)))
        named += search(judge).culprit is not None
    assert named <= 1


def test_the_budget_ends_in_a_range_with_the_culprit() -> None:
    random = np.random.default_rng(9)
    judge = simulated.SimulatedTimes(simulated.step(0.05, 20), lambda: SIGMA * float(random.standard_t(10)))
    found = search(judge, limits=SearchLimits(most_runs=4))
    assert found.outcome == "range"
    assert 20 in found.suspects
    assert judge.total <= 4


def test_points_that_the_ledger_excludes_are_not_run() -> None:
    weights = tuple(1.0 if point in (8, 16, 24) else 0.0 for point in range(POINTS))
    alike = tuple(0 if point < 8 else 8 if point < 16 else 16 if point < 24 else 32 for point in range(POINTS))
    random = np.random.default_rng(10)
    judge = simulated.SimulatedTimes(simulated.step(0.05, 16), lambda: SIGMA * float(random.standard_t(10)))
    found = search(judge, Line(weights=weights, alike=alike))
    assert found.culprit == 16
    assert set(judge.values) <= {0, 8, 16, 32}


def test_a_killed_search_continues_with_the_same_runs() -> None:
    """The next action depends on the runs only: a new search over them chooses the same run."""
    random = np.random.default_rng(11)
    judge = simulated.SimulatedTimes(simulated.step(0.05, 9), lambda: SIGMA * float(random.standard_t(10)))
    asked = []
    while isinstance(action := next_action(EVERY, judge, SearchLimits()), Finish) is False:
        assert next_action(EVERY, judge, SearchLimits()) == action
        asked.append(action)
        for point in action.points:  # type: ignore[union-attr]
            judge.train(point)
    assert asked
