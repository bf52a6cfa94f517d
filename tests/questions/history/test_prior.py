"""The noise of a target from its history: the runs that count as equal, and the runs left out."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import log
from typing import Any

import numpy as np
import polars as pl
import pytest

from questions.history.history_table import append_comparison, read_runs
from questions.history.prior import differences_of_equal_runs, neighbour_differences, past_noise, past_of_history
from questions.history.record_rows import HISTORY_SCHEMA
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store

type Night = Callable[..., ComparisonRecord]

QUICK = "step_time_quick_s"
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def row(number: int, value: float | None, **changes: Any) -> dict[str, Any]:
    given = {
        "comparison_id": f"c{number}", "created": BEGIN + timedelta(hours=number),
        "time": BEGIN + timedelta(hours=number), "comparison": "linen-vs-nnx", "case": "01_base", "target": "cpu",
        "arm": "linen", "role": "baseline", "commit": "a" * 40, "repeat": 0, "run": f"run-{number}", "metric": QUICK,
        "unit": "s", "better": "lower", "value": value, "samples": 49, "same_program": False,
    }  # fmt: skip
    return {**dict.fromkeys(HISTORY_SCHEMA), **given, **changes}


def table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=HISTORY_SCHEMA)


def differences(rows: list[dict[str, Any]], case: str | None = "01_base", **more: Any) -> list[float]:
    found = differences_of_equal_runs(table(rows), target="cpu", metric=QUICK, case=case, **more)
    return sorted(size for size, _ in found)


def test_neighbouring_runs_of_one_commit_are_equal() -> None:
    rows = [row(0, 1.0), row(1, 2.0), row(2, 1.0)]
    assert differences(rows) == pytest.approx([-np.log(2), np.log(2)])


def test_runs_of_another_commit_arm_case_target_or_metric_are_not_equal() -> None:
    for other in ({"commit": "b" * 40}, {"arm": "nnx"}, {"case": "03_dropout"}, {"target": "cpu-8"}, {"metric": "x"}):
        assert differences([row(0, 1.0), row(1, 2.0, **other)]) == []
    assert differences([row(0, 1.0), row(1, 2.0, commit=None), row(2, 2.0, commit=None)]) == []


def test_the_arms_of_a_proved_pair_are_equal_and_count_once() -> None:
    rows = []
    for repeat, (base, cand) in enumerate(((1.0, 2.0), (4.0, 4.0))):
        for role, value in (("baseline", base), ("candidate", cand)):
            rows.append(
                row(0, value, role=role, arm=role, repeat=repeat, run=f"{role}-{repeat}", same_program=True)
            )  # fmt: skip
    assert differences(rows) == pytest.approx([0.0, np.log(2)])


def test_the_standard_errors_of_two_runs_are_combined() -> None:
    rows = [
        row(0, 1.0, error=0.03),
        row(1, 1.0, error=0.04),
        row(2, 1.0),
    ]  # the last row is in the format of an older version
    found = differences_of_equal_runs(table(rows), target="cpu", metric=QUICK, case="01_base")
    assert [error for _, error in found] == pytest.approx([0.05, 0.04])


def test_judged_runs_are_left_out_of_the_noise() -> None:
    rows = [row(0, 1.0), row(1, 2.0), row(2, 4.0)]
    assert differences(rows, excluded=["run-2"]) == pytest.approx([np.log(2)])
    assert differences(rows, excluded=["run-0", "run-2"]) == []


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), 0.0, -1.0])
def test_invalid_times_are_left_out(value: float | None) -> None:
    assert differences([row(0, 1.0), row(1, value), row(2, 1.0)]) == pytest.approx([0.0])


def test_a_case_with_little_history_uses_the_targets() -> None:
    rng = np.random.default_rng(1)
    rows = [row(i, float(np.exp(rng.normal(0, 0.01))), case="03_dropout") for i in range(60)]
    rows += [row(100 + i, 1.0) for i in range(3)]
    (past,) = past_noise(table(rows), target="cpu", case="01_base").values()
    assert (past.source, len(past.differences)) == ("history of cpu", 59 + 2)
    own = past_noise(table(rows), target="cpu", case="03_dropout")[QUICK]
    assert (own.source, len(own.differences)) == ("history of 03_dropout on cpu", 59)
    # a case needs eight pairs; otherwise any case of the target counts
    nine = [row(i, 1.0 + i, case="03_dropout") for i in range(9)]
    assert past_noise(table(nine), target="cpu", case="03_dropout")[QUICK].source == "history of 03_dropout on cpu"
    assert past_noise(table(nine[:8]), target="cpu", case="03_dropout") == {}


def test_an_empty_history_has_no_noise() -> None:
    assert past_noise(table([]), target="cpu", case="01_base") == {}


@pytest.mark.flows
def test_earlier_comparisons_give_the_noise_of_the_next(store: Store, night: Night) -> None:
    for day in range(1, 7):  # six nights of equal runs of one commit, which differ by up to 2 %
        append_comparison(night(day, seconds=0.1 + 0.001 * (day % 3), repeats=2), store)
    later = night(9, seconds=0.1, candidate_s=0.12, repeats=1)
    runs = read_runs(later, store)
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=tuple(runs))
    past = past_of_history(case, store)
    assert set(past) == {"step_time_s", "step_time_quick_s"}
    (known,) = [row for row in judge(examine(case, past)).rows if row.metric == "step_time_s"]
    (alone,) = [row for row in judge(examine(case)).rows if row.metric == "step_time_s"]
    # the stated noise of a CPU is 10 %, the history of this one shows 2 % at most
    assert (known.verdict, alone.verdict) == ("regressed", "unknown")
    assert known.effect == alone.effect == pytest.approx(0.2)
    assert known.effect_low is not None
    assert known.effect_low > 0.1
    assert "pairs of the history of " in known.reason
    assert "pairs of the history" not in alone.reason
    append_comparison(later, store)
    assert past_of_history(case, store) == past  # the judged runs do not count


def test_neighbours_belong_to_one_group() -> None:
    runs = [[(1.0, 0.03), (2.0, 0.04), (4.0, None)], [(100.0, 0.0), (0.0, 0.0), (50.0, 0.0)], [(3.0, 0.0)]]
    sizes, errors = zip(*neighbour_differences(runs), strict=True)
    assert sizes == pytest.approx([log(2), log(2), -log(2)])
    assert errors == pytest.approx([0.05, 0.04, 0.0])  # 3, 4, 5
