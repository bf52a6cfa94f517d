"""The row *Restored*: a fault of one arm counts, a fault of both is no difference."""

from collections.abc import Callable

import pytest

from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.restored import Restored, RestoredArray
from tasks.records.run import RunRecord

type MakeRun = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]
type RowOf = Callable[[ComparisonRecord, str], MetricDiff]

EQUAL = RestoredArray(name="params.w", role="parameter", word="equal", is_fault=False)
CAST = RestoredArray(name="params.b", role="parameter", word="cast", detail="cast: float32 → bfloat16 → float32")
ZERO = RestoredArray(name="params.b", role="parameter", word="zeros")
WHOLE, ROUNDED = (Restored(source="step 5", arrays=(EQUAL, one)) for one in (EQUAL, CAST))
LOST = Restored(source="step 5", arrays=(EQUAL, ZERO))
DIED = Restored(source="step 5", problem="KeyError: 'opt_state'")


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (WHOLE, WHOLE, "same"),
        (WHOLE, ROUNDED, "regressed"),
        (WHOLE, DIED, "regressed"),
        (ROUNDED, WHOLE, "improved"),
        (ROUNDED, ROUNDED, "same"),
        (ROUNDED, LOST, "changed"),
    ],
)
def test_a_fault_that_one_arm_has_counts(
    before: Restored, after: Restored, verdict: str, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    runs = (make_run(arm, exact=True) for arm in ("linen", "nnx"))
    record = compare(*(run.replace(restored=one) for run, one in zip(runs, (before, after), strict=True)))
    row = row_of(record, "restored")
    assert row.verdict == verdict
    if verdict == "regressed":
        assert (after.problem or "params.b") in row.reason
        assert record.verdict == "regressed"


def test_there_is_no_row_if_no_restore_was_compared(make_run: MakeRun, compare: Compare) -> None:
    record = compare(make_run("linen"), make_run("nnx"))
    assert "restored" not in {row.metric for row in record.rows}
    runs = [make_run(arm).replace(restored=DIED) for arm in ("linen", "nnx")]
    assert "restored" not in {row.metric for row in compare(*runs).rows}


@pytest.mark.parametrize("checked", [0, 1])
def test_a_fault_of_the_only_arm_that_was_checked_decides_nothing(
    checked: int, make_run: MakeRun, compare: Compare, row_of: RowOf
) -> None:
    runs = [make_run(arm, exact=True) for arm in ("linen", "nnx")]
    runs[checked] = runs[checked].replace(restored=ROUNDED)
    row = row_of(compare(*runs), "restored")
    assert row.verdict == "unknown"
    assert row.reason.startswith(f"only the {('baseline', 'candidate')[checked]} was checked")
    assert "params.b" in row.reason
