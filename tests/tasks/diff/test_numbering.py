"""Logs that count their steps from 0 and from 1: the n-th steps are compared, and a note says so."""

from collections.abc import Callable, Sequence

import pytest

from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.run import RunRecord

type Run = Callable[..., RunRecord]
type Compare = Callable[..., ComparisonRecord]

FALLING = (8.0, 7.5, 7.1, 6.8, 6.6, 6.5, 6.45, 6.42, 6.4)


@pytest.fixture
def run(make_run: Callable[..., RunRecord]) -> Run:
    def make(arm: str, losses: Sequence[float] = FALLING, first: int = 0) -> RunRecord:
        return make_run(arm, seconds=(3.0, *[0.07] * (len(losses) - 1)), losses=losses, first=first)

    return make


def effects_of(record: ComparisonRecord) -> dict[str, str]:
    return {finding.kind: finding.effect for finding in record.findings}


@pytest.mark.parametrize(("left", "right"), [(0, 1), (1, 0)])
def test_the_same_losses_under_other_numbers_are_the_same(
    left: int, right: int, run: Run, compare: Compare, row_of: Callable[[ComparisonRecord, str], MetricDiff]
) -> None:
    record = compare(run("linen", first=left), run("nnx", first=right))
    assert effects_of(record)["numbering"] == "note"
    assert "steps" not in effects_of(record)
    for metric in ("loss_per_step", "final_loss"):
        assert row_of(record, metric).verdict == "same", row_of(record, metric).reason
    assert record.parities[0].steps == len(FALLING)


def test_an_offset_is_found_under_other_numbers_too(run: Run, compare: Compare) -> None:
    lifted = tuple(loss + (0.05 if step >= 2 else 0.0) for step, loss in enumerate(FALLING))
    record = compare(run("linen"), run("nnx", lifted, first=1))
    assert record.verdict == "regressed"
    assert record.divergence is not None
    assert record.divergence.step == 2


def test_a_log_that_lacks_its_first_step_keeps_its_numbers(run: Run, compare: Compare) -> None:
    record = compare(run("linen", FALLING[:-1]), run("nnx", FALLING[1:], first=1))
    assert effects_of(record)["steps"] == "qualifies"
    assert "numbering" not in effects_of(record)
    assert record.parities[0].different == 0


def test_a_run_resumed_at_another_step_keeps_its_numbers(run: Run, compare: Compare) -> None:
    record = compare(run("linen"), run("nnx", first=2))
    assert effects_of(record)["steps"] == "qualifies"
    assert "numbering" not in effects_of(record)
