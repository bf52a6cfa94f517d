"""Logs with one torn row: no number is wrong, and no loss of a row or a value is silent."""

import re
from typing import Any

import pytest

from tasks.scrape.read_log import scrape_text

pytestmark = pytest.mark.flows

TITAN = b"[rank0]:[titan] 2025-06-20 19:13:%02d,663 - root - INFO - step: %2d  loss: 12.2691%d  grad_norm:  4.1000  memory: 40.67GiB(42.80%%)  tps: 6,510  tflops: 376.93  mfu: 38.11%%\n"  # noqa: E501


@pytest.mark.parametrize(
    "numbers",
    [
        range(200),
        pytest.param(range(200, 600), marks=pytest.mark.long),
        pytest.param(range(600, 2000), marks=[pytest.mark.long, pytest.mark.by_hand]),
    ],
)
def test_no_loss_is_silent_and_no_number_is_wrong(numbers: range, torn_rows: Any) -> None:
    wrong = [
        f"{number}, {torn.log}, {torn.kind}, line {torn.line}: {problem}"
        for number in numbers
        for torn in [torn_rows.tear_row(number)]
        for problem in torn_rows.judge_torn(torn)
    ]
    assert wrong == []


def test_every_kind_of_damage_is_in_the_first_200(torn_rows: Any) -> None:
    torn = [torn_rows.tear_row(number) for number in range(200)]
    assert {one.kind for one in torn} == {*torn_rows.TEARS}
    assert {one.log for one in torn} == {*torn_rows.LOGS}
    assert sum(one.data != one.whole for one in torn) > 190


def test_the_judge_sees_a_lost_row_and_a_wrong_number(torn_rows: Any) -> None:
    torn = torn_rows.tear_row(1)
    rows = [line for line in torn.whole.splitlines(keepends=True) if torn_rows.HEAD.search(line)]
    lost = torn_rows.Torn(torn.log, "lost", 1, torn.whole, torn.whole.replace(rows[-1], b""))
    assert [problem.partition(":")[0] for problem in torn_rows.judge_torn(lost)] == ["silent"]
    other = re.sub(rb"lm loss: 1", b"lm loss: 2", torn.whole, count=1)
    wrong = torn_rows.Torn(torn.log, "another number", 1, torn.whole, other)
    assert [problem.partition(":")[0] for problem in torn_rows.judge_torn(wrong)] == ["wrong"]


@pytest.mark.parametrize(
    ("torn", "line"),
    [
        (lambda row: row.replace(b"memory:", b"mmemory:"), 2),
        (lambda row: row[: row.index(b"  loss")] + b"\n", 2),
        (lambda row: row.replace(b"  tps", b"\n  tps"), 2),
        (lambda row: row.replace(b"6,510", b"6,WARNING510"), 2),
    ],
    ids=["a doubled letter", "cut after the step", "folded", "a word in a value"],
)
def test_a_torn_row_of_a_short_log_is_counted_with_its_line(torn: Any, line: int) -> None:
    rows = [TITAN % (second, second, second) for second in (1, 2)]
    data = b"[titan] 2025-06-20 19:13:00,101 - root - INFO - Training starts at step 1.\n" + torn(rows[0]) + rows[1]
    (run,) = scrape_text(data, name="x").runs
    assert run.steps["step"].to_list() == [2]
    assert {unread.line for unread in run.coverage.unread} >= {line}
    assert run.coverage.step_lines_seen > run.coverage.step_lines_parsed == 1
    assert not run.coverage.complete
