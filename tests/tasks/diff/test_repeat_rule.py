"""`--until-decided`: when it adds runs, how many, and when it stops."""

from collections.abc import Callable

import pytest

from tasks.diff.judge.repeat_rule import Patience, next_look, next_repeats, undecided_rows
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.run import RunRecord
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]


@pytest.mark.parametrize(
    ("repeats", "wanted", "most", "expected"),
    [
        (1, 3, 30, 3),  # requested by the verdict
        (1, None, 30, 3),  # the minimum for an estimate
        (3, 5, 30, 5),
        (3, 40, 30, 6),  # an estimate from three runs: not at once
        (3, None, 30, 6),
        (6, 3, 30, 7),  # one at least
        (20, 90, 30, 30),
        (30, 90, 30, 30),
    ],
)
def test_the_next_repeats(repeats: int, wanted: int | None, most: int, expected: int) -> None:
    assert next_repeats(repeats, wanted, most=most) == expected


@pytest.fixture
def unsure(make_run: MakeRun, compare: Compare) -> ComparisonRecord:
    runs: dict[str, list[RunRecord]] = {"linen": [], "nnx": []}
    for repeat, slow in enumerate((1.2, 1.2, 0.9)):
        for arm, seconds in (("linen", 1.0), ("nnx", slow)):
            runs[arm].append(make_run(arm, seconds=(3.0, seconds, seconds), losses=(9.0, 8.0, 7.0), repeat=repeat))
    return compare(runs["linen"], runs["nnx"])


def test_an_undecided_row_adds_runs_and_gives_the_reason(unsure: ComparisonRecord, wording: Wording) -> None:
    assert [row.metric for row in undecided_rows(unsure)] == ["step_time_s"]
    look = next_look(unsure, repeats=3, patience=Patience(), spent_s=100.0)
    assert look.repeats == 6
    assert look.why.startswith("Step time, steady (+9.0 % (")  # the third root of 1.2 × 1.2 × 0.9
    assert ": 3 more runs " in look.why
    assert look.why.endswith("about 3 minutes")  # two runs of 30 s, three times
    wording("reasons", look.why)


def test_the_budget_and_the_number_of_repeats_are_limits(unsure: ComparisonRecord, wording: Wording) -> None:
    def repeats(patience: Patience) -> int | None:
        return next_look(unsure, repeats=3, patience=patience, spent_s=100.0).repeats

    assert repeats(Patience(most=4)) == 4
    assert repeats(Patience(most=3)) is None
    assert repeats(Patience(budget_s=230.0)) == 5  # 130 s remain for two runs of 60 s
    assert repeats(Patience(budget_s=150.0)) is None
    assert repeats(Patience(budget_s=90.0)) is None
    stopped = next_look(unsure, repeats=3, patience=Patience(budget_s=150.0), spent_s=100.0)
    assert "budget of 2.5 minutes" in stopped.why
    wording("reasons", stopped.why)


def test_a_decided_or_incomparable_row_needs_no_more_runs(unsure: ComparisonRecord) -> None:
    decided = tuple(row.replace(verdict="same") for row in unsure.rows)
    assert undecided_rows(unsure.replace(rows=decided)) == []
    look = next_look(unsure.replace(rows=decided), repeats=3, patience=Patience(), spent_s=0.0)
    assert (look.repeats, look.why) == (None, "")


def test_more_runs_do_not_resolve_rounding(make_run: MakeRun, compare: Compare) -> None:
    record = compare(make_run("linen"), make_run("nnx", losses=(9.0, 8.5, 8.0, 7.5, 7.25, 7.001)))

    def of(metric: str) -> MetricDiff:
        return next(row for row in record.rows if row.metric == metric)

    assert of("loss_per_step").verdict == "same"
    assert "loss_per_step" not in {row.metric for row in undecided_rows(record)}
