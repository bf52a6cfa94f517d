"""The top of a page: the deciding row, a title of two lines, the place of a death, the duration of the next command."""

from collections.abc import Callable

import pytest

from tasks.metrics.table import METRICS
from tasks.publish.content.answer import (
    answer_of,
    find_frame,
    shorten_title,
    tell_certainty,
)
from tasks.records import ComparisonRecord, MetricDiff

type MakeRow = Callable[..., MetricDiff]


def test_after_a_death_no_row_decides_or_agrees(record_000: ComparisonRecord) -> None:
    answer = answer_of(record_000)
    assert answer.row is None
    assert answer.sentence == f"Nothing was compared; the table has what {record_000.baseline.label} measured."


def test_a_row_without_a_verdict_does_not_agree(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    """A throughput repeats the step time: the table shows it without a verdict, and the sentence omits it."""
    titles = {metric.name: metric.title for metric in METRICS}
    words = {"step_time_s": "same", "tflops_per_device": "not judged"}
    rows = [make_row(name, titles[name], ("1", "1", "0"), word, "") for name, word in words.items()]
    answer = answer_of(record_002.model_copy(update={"rows": tuple(rows)}))
    assert answer.sentence == "Step time steady is the same."


def test_a_title_ends_at_a_clause_and_a_short_one_is_complete() -> None:
    assert shorten_title("no difference") == "no difference"
    long = "not comparable: both logs claim commit 574ad3fb9, but ran different code on different JAX: 4 of the same"
    assert shorten_title(f"{long} messages come from other lines") == long.rpartition(":")[0]


def test_the_innermost_frame_is_the_place_of_the_error() -> None:
    lines = [
        '  File "/a/b/maxtext/train.py", line 536, in main',
        '  File "/a/b/maxtext/utils/loop.py", line 7, in step',
    ]
    assert find_frame(lines) == "maxtext/utils/loop.py:7 in step"
    assert find_frame(["no traceback"]) == ""


@pytest.mark.parametrize(
    ("verdict", "evidence", "interval", "words"),
    [
        # 22.1 % is 11 thresholds, 2.5 % is one and a quarter
        (
            "regressed",
            "one run of each",
            (0.221, 0.270),
            "Likely: by these two runs the difference is at least +22.1 %",
        ),
        (
            "improved",
            "one run of each",
            (-0.060, -0.025),
            "Likely: by these two runs the difference is at least -2.5 %",
        ),
        ("regressed", "3 runs of each", (0.221, 0.270), "Yes: the difference is between +22.1 % and +27.0 %"),
        ("same", "3 runs of each", (-0.016, 0.018), "Yes, to within ±2 %: the difference is between -1.6 % and +1.8 %"),
        (
            "unknown",
            "one run of each",
            (-0.078, 0.062),
            "Not sure yet: the difference is somewhere between -7.8 % and +6.2 %",
        ),
    ],
)
def test_a_verdict_states_its_certainty(
    record_002: ComparisonRecord,
    make_row: MakeRow,
    verdict: str,
    evidence: str,
    interval: tuple[float, float],
    words: str,
) -> None:
    reported = {
        "evidence": evidence,
        "effect": sum(interval) / 2,
        "effect_low": interval[0],
        "effect_high": interval[1],
    }
    limit = {"threshold": 0.002, "threshold_text": "±2 %", "baseline": 0.1}
    row = make_row("step_time_s", "Step time", ("0.1", "0.1", "0"), verdict, "").model_copy(update=reported | limit)
    sure = tell_certainty(record_002.model_copy(update={"findings": ()}), row)
    assert sure.startswith(words)
    assert ("cannot show" in sure) is (evidence == "one run of each" and verdict != "unknown")
