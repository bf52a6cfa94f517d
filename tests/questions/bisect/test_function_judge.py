"""A bisection by the function of the step: the real search and the real judge."""

import pytest

from configs.verdict_rules import load_verdict_rules
from questions.bisect.bisected_metric import read_metric
from questions.bisect.function_judge import KEY, FunctionJudge
from questions.bisect.search import next_action
from questions.bisect.terms import Finish, Line, SearchLimits
from tasks.diff.examine.examine_case import CaseRuns
from tasks.records.function import FunctionComparison
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord

POINTS = 17
LINE = Line(weights=(0.0, *[1.0] * (POINTS - 1)), alike=tuple(range(POINTS)))


def run_of(answer: str) -> RunRecord:
    found = FunctionComparison(answer=answer, sentence=f"{answer} function")  # type: ignore[arg-type]
    reading = RunReading(name="r", format="maxview", exit_code=0)
    return RunRecord(
        plan=None, arm="a", label="a", commit=None, log="r/log", reading=reading,
        program={KEY: found.model_dump(mode="json")},
    )  # fmt: skip


def search(answers: list[str]) -> tuple[Finish, dict[int, list[RunRecord]]]:
    runs: dict[int, list[RunRecord]] = {}
    template = CaseRuns(
        comparison="main-vs-branch", case="01_base", target="cpu", runs=(),
        rules=load_verdict_rules("main-vs-branch", "cpu"),
    )  # fmt: skip
    for _ in range(100):
        judge = FunctionJudge(
            read_metric("function"), template, runs, failures={}, past={}, complete=lambda runs: runs
        )  # fmt: skip
        action = next_action(LINE, judge, SearchLimits())
        if isinstance(action, Finish):
            return action, runs
        for point in action.points:
            runs.setdefault(point, []).append(run_of(answers[point]))
    raise AssertionError("the search does not end")


@pytest.mark.parametrize("culprit", [1, 9, 16])
def test_the_first_commit_with_another_function_is_named(culprit: int) -> None:
    found, runs = search(["another" if point >= culprit else "same" for point in range(POINTS)])
    assert (found.outcome, found.culprit) == ("found", culprit)
    assert all(len(done) == 1 for done in runs.values())
    assert len(runs) <= 2 + 5  # both ends, and log2(16) commits, one more


def test_commits_that_only_round_have_no_culprit() -> None:
    found, _ = search(["same"] * POINTS)
    assert found.outcome == "no difference"


def test_a_commit_that_cannot_be_evaluated_is_skipped() -> None:
    answers = ["another" if point >= 9 else "same" for point in range(POINTS)]
    answers[8] = "not evaluated"
    found, _ = search(answers)
    assert found.culprit == 9 or found.outcome != "found"
