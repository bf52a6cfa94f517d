"""The report of a search that ended in a range: the number of suspects, the likeliest one, and the next command."""

import re

import pytest

from questions.bisect.bisected_metric import BisectedMetric
from questions.bisect.describe_bisection import next_words, show_counts, write_headline, write_record
from questions.bisect.points import Span
from questions.bisect.search import NOT_SURE
from questions.bisect.terms import Finish
from tasks.records.bisection import BisectedPoint, LedgerEntry
from tasks.records.compared_case import Decision
from tasks.records.plan import Commit
from tasks.resolve.options import BisectMore, BisectOptions
from tasks.resolve.refs import ResolvedRef
from tests.wording.sentences import Wording

RANGE = Finish(outcome="range", why=NOT_SURE, suspects=(2, 3, 5))
LOSS = BisectedMetric(name="loss_per_step", title="Loss, step by step")


def make_points(*chances: float) -> tuple[BisectedPoint, ...]:
    """Good and bad were run; the points between have these chances."""
    commits = [
        Commit(sha=f"{number:x}" * 40, time="2026-01-01", author="x", subject="") for number in range(len(chances))
    ]
    ends = (0, len(chances) - 1)
    return tuple(
        BisectedPoint(commit=commit, chance=chance, runs=2 if number in ends else 0)
        for number, (commit, chance) in enumerate(zip(commits, chances, strict=True))
    )


def test_a_range_has_the_number_of_suspects_and_the_likeliest(wording: Wording) -> None:
    points = make_points(0, 0, 0.2, 0.62, 0, 0.18)
    headline = write_headline(RANGE, points, "01_base", LOSS)
    for part in (
        "01_base: Loss, step by step ",
        " 3 commits ",
        " 222222222 to 555555555",
        "333333333 (62 %)",
        NOT_SURE,
    ):
        assert part in headline
    wording("reasons", headline)
    even = make_points(0, 0, 0.33, 0.33, 0, 0.34)
    assert "most likely" not in write_headline(RANGE, even, "01_base", LOSS)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (
            "differs first at step 3 (8.691234588623047 and 8.715); 0.0241 higher",
            "differs first at step 3 (8.69123 and 8.715); ",
        ),
        ("differs first at step 3 (8.691234588623047 and 8.691234)", "differs first at step 3"),
        ("+29.1 % (+21.0 … +37.8)", "+29.1 % (+21.0 … +37.8)"),
        ("NaN: 1.2345678e-07 became nan", "NaN: 1.23457e-07 became nan"),
    ],
)
def test_numbers_of_a_headline_have_six_digits_at_most(told: str, shown: str) -> None:
    finish = Finish(
        outcome="found", why="", culprit=1, before=0, pair_verdict=Decision(verdict="regressed", reason=told)
    )
    assert f"Loss, step by step {shown}" in write_headline(finish, make_points(0, 1, 0), "01_base", LOSS)


def test_the_headline_has_the_verdict_of_the_comparison_that_it_quotes() -> None:
    told = "differs first at step 3 (8.69 and 8.71); 1.9e-06 lower in steps 15–19"
    for verdict in ("regressed", "changed"):
        pair = Decision(verdict=verdict, reason=told)
        finish = Finish(outcome="found", why="", culprit=1, before=0, pair_verdict=pair)
        headline = write_headline(finish, make_points(0, 1, 0), "01_base", LOSS)
        assert f"is the first commit that {verdict} 01_base: Loss" in headline
    by_ledger = Finish(outcome="found", why="", culprit=1, before=0)
    program = BisectedMetric(name="program", title="program")
    assert "that changed 01_base" in write_headline(by_ledger, make_points(0, 1, 0), "01_base", program)
    memory = BisectedMetric(name="program_memory_gb", title="Memory of the program")  # only more memory is searched for
    assert "that regressed 01_base" in write_headline(by_ledger, make_points(0, 1, 0), "01_base", memory)


@pytest.mark.parametrize(
    ("more", "continued"),
    [
        (BisectMore(max_runs=6), ["--metric", "loss", "--max-runs", "12"]),
        (BisectMore(budget="90s"), ["--metric", "loss", "--budget", "180s"]),
        (BisectMore(), ["--metric", "loss", "--max-runs", "200"]),
    ],
)
def test_a_range_at_a_limit_offers_the_same_search_with_twice_the_limit(more: BisectMore, continued: list[str]) -> None:
    points = make_points(0, 0, 0.2, 0.62, 0, 0.18)
    request = BisectOptions(good="v1", bad="main", metric="loss", more=more)
    good, bad = (
        ResolvedRef(name=name, sha=point.commit.sha) for name, point in (("v1", points[0]), ("main", points[-1]))
    )
    span = Span(repository=".", named=False, good=good, bad=bad, points=points)
    common = ["maxview", "bisect", "main-vs-branch", "--good", "v1", "--bad", "main", "--case", "01_base"]
    assert next_words(request, span, "01_base", RANGE) == common + continued
    skipped = RANGE.replace(why="2 of them could not be judged")
    assert next_words(request, span, "01_base", skipped) == []
    record = write_record(request, span, "01_base", "cpu", LOSS, RANGE, points, {})
    # of five commits after good, bad was run and 2, 3 are suspects
    assert show_counts(record) == "5 commits, 2 ruled out without training"


def test_a_commit_that_does_not_compile_has_no_other_program(wording: Wording) -> None:
    entries = [LedgerEntry(program="a"), LedgerEntry(error="RuntimeError: half merged"), LedgerEntry(program="a")]
    points = make_points(0, 0, 0)
    points = tuple(point.replace(ledger=one) for point, one in zip(points, entries, strict=True))
    ends = [ResolvedRef(name=name, sha=points[number].commit.sha) for name, number in (("v1", 0), ("main", 2))]
    span = Span(repository=".", named=False, good=ends[0], bad=ends[1], points=points)
    same = Finish(outcome="no difference", why="good and bad are the same")
    record = write_record(BisectOptions(good="v1", bad="main"), span, "01_base", "cpu", LOSS, same, points, {})
    assert re.match(r"2 commits, 0 .*, 1 ", show_counts(record))
    wording("parts", show_counts(record))


def test_a_search_for_the_function_trains_nothing(wording: Wording) -> None:
    points = make_points(0, 0, 0.2, 0.62, 0, 0.18)
    ends = [ResolvedRef(name=name, sha=points[number].commit.sha) for name, number in (("v1", 0), ("main", 5))]
    span = Span(repository=".", named=False, good=ends[0], bad=ends[1], points=points)
    finish = Finish(outcome="found", why="", culprit=1, before=0)
    request = BisectOptions(good="v1", bad="main", metric="function")
    metric = BisectedMetric(name="function", title="Function of the step")
    record = write_record(request, span, "01_base", "cpu", metric, RANGE, points, {})
    record = record.replace(runs=2, trained=2, seconds=60.0)
    assert re.match(r"5 commits, .* 2 .*, 60 s, ", show_counts(record))
    wording("parts", show_counts(record))
    assert next_words(request, span, "01_base", finish)[-2:] == ["--only", "function"]
