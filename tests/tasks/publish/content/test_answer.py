"""The top of a page: the deciding row, a title of two lines, the place of a death, the duration of the next command."""

from collections.abc import Callable

import pytest

from tasks.metrics.table import METRICS
from tasks.publish.content.answer import (
    advise,
    answer_of,
    describe_command,
    find_deciding_row,
    find_frame,
    shorten_title,
    tell_certainty,
    tell_cost,
)
from tasks.publish.content.effects import draw_effects
from tasks.publish.content.verdict_words import AGAIN, FIXES
from tasks.records import ComparisonRecord, MetricDiff
from tasks.records.run_end import DEATH_WORDS

type MakeRow = Callable[..., MetricDiff]


def test_the_deciding_row_has_the_overall_verdict(record_002: ComparisonRecord) -> None:
    better = tuple(
        row.model_copy(update={"verdict": "improved"}) if row.verdict == "regressed" else row for row in record_002.rows
    )
    for word, rows in (("unknown", record_002.rows), ("regressed", record_002.rows), ("improved", better)):
        row = find_deciding_row(record_002.model_copy(update={"verdict": word, "rows": rows}), draw_effects(rows))
        assert row is not None
        assert row.verdict == word


def test_a_row_with_a_drawable_interval_comes_first(record_002: ComparisonRecord) -> None:
    unknown = {row.metric for row in record_002.rows if row.verdict == "unknown"}
    judged = ("step_time_s", "checkpoints")
    assert unknown >= set(judged)
    for metric in judged:
        row = find_deciding_row(record_002, [metric])
        assert row is not None
        assert row.metric == metric


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


def test_every_class_of_death_says_whether_a_repeat_helps() -> None:
    assert AGAIN.keys() == FIXES.keys() == DEATH_WORDS.keys()


def test_a_command_that_starts_different_runs_has_no_duration(record_002: ComparisonRecord) -> None:
    command = {"next_command": "maxview compare linen-vs-nnx --case 03_dropout --until-decided"}
    row = record_002.rows[0].model_copy(update={"verdict": "unknown", "cost_text": "about 5 hours"})
    logged = record_002.model_copy(update=command | {"comparison": "ingest"})
    trained = record_002.model_copy(update=command | {"comparison": "linen-vs-nnx"})
    assert [tell_cost(record, row) for record in (logged, trained)] == ["", "takes about 5 hours in all"]


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


def test_a_command_states_its_purpose(record_002: ComparisonRecord) -> None:
    row = record_002.rows[0].model_copy(update={"effect_text": "+24.6 % (+22.1 … +27.0)"})
    command = "maxview compare main-vs-branch --case 03_dropout --repeats 3"
    update = {"comparison": "main-vs-branch", "verdict": "regressed", "next_command": command}
    settled = record_002.model_copy(update=update)
    assert describe_command(settled, row) == "This command repeats both arms: does +24.6 % hold?"
    assert advise(settled, row) == ""  # nothing has to be done before


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("maxview ingest --baseline a.log --candidate b.log", "Then this command reads all logs: is there a"),
        ("maxview compare linen-vs-nnx --case 03_dropout", "Meanwhile this command trains the case here"),
    ],
)
def test_given_logs_need_new_runs_before_the_command(
    record_000: ComparisonRecord, record_002: ComparisonRecord, command: str, does: str
) -> None:
    given = {"comparison": "ingest", "next_command": command}
    died, blocked = (one.model_copy(update=given) for one in (record_000, record_002))
    assert advise(died, None).startswith("Implement it")  # the error is "not implemented"
    assert advise(died, None).endswith("With this fix, run it again and replace its log.")
    assert any(finding.effect == "blocks" for finding in record_002.findings)
    assert advise(blocked, None).startswith("Run both again so that only the change differs between them")
    assert all(describe_command(one, None).startswith(does) for one in (died, blocked))


def test_a_settled_difference_says_where_its_cause_is(record_002: ComparisonRecord) -> None:
    settled = record_002.model_copy(update={"verdict": "changed", "next_command": ""})
    sides = {"baseline": "a" * 9, "candidate": "b" * 9}
    arms = {side: getattr(settled, side).model_copy(update={"commit": sha}) for side, sha in sides.items()}
    assert advise(settled.model_copy(update=arms), None).endswith("git log aaaaaaaaa...bbbbbbbbb")
    assert advise(settled, None).endswith("the differences that are listed here.")  # one commit
    assert advise(settled.model_copy(update={"verdict": "same"}), None) == ""
