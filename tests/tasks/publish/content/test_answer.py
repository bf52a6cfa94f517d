"""The top of a page: the row that decides, a title of two lines, the place of a death, the time of what is next."""

from collections.abc import Callable

from tasks.metrics.table import METRICS
from tasks.publish.content.answer import answer_of, find_deciding_row, find_frame, shorten_title, tell_cost
from tasks.publish.content.effects import draw_effects
from tasks.publish.content.verdict_words import AGAIN
from tasks.records import ComparisonRecord, MetricDiff
from tasks.records.run_end import DEATH_WORDS

type MakeRow = Callable[..., MetricDiff]


def test_the_deciding_row_has_the_verdicts_word(record_002: ComparisonRecord) -> None:
    better = tuple(
        row.model_copy(update={"verdict": "improved"}) if row.verdict == "regressed" else row for row in record_002.rows
    )
    for word, rows in (("unknown", record_002.rows), ("regressed", record_002.rows), ("improved", better)):
        row = find_deciding_row(record_002.model_copy(update={"verdict": word, "rows": rows}), draw_effects(rows))
        assert row is not None
        assert row.verdict == word


def test_a_row_whose_interval_can_be_drawn_goes_before_others(record_002: ComparisonRecord) -> None:
    unknown = {row.metric for row in record_002.rows if row.verdict == "unknown"}
    judged = ("step_time_s", "checkpoints")  # the others are single steps, which are not judged
    assert unknown > set(judged)
    for metric in judged:
        row = find_deciding_row(record_002, [metric])
        assert row is not None
        assert row.metric == metric


def test_of_a_death_no_row_decides_and_nothing_agrees(record_000: ComparisonRecord) -> None:
    answer = answer_of(record_000, {})
    assert answer.row is None
    assert answer.sentence == f"Nothing was compared; the table has what {record_000.baseline.label} measured."


def test_a_row_that_is_shown_only_does_not_agree(record_002: ComparisonRecord, make_row: MakeRow) -> None:
    """A throughput is the step time once more: the table shows it without a word, and the sentence leaves it out."""
    titles = {metric.name: metric.title for metric in METRICS}
    rows = [make_row(name, titles[name], ("1", "1", "0"), "same", "") for name in ("step_time_s", "tflops_per_device")]
    answer = answer_of(record_002.model_copy(update={"rows": tuple(rows)}), {})
    assert answer.sentence == "Step time steady agrees."


def test_a_title_ends_at_a_clause_and_a_short_one_is_whole() -> None:
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


def test_every_kind_of_death_says_whether_running_it_again_helps() -> None:
    assert AGAIN.keys() == DEATH_WORDS.keys()


def test_a_command_that_starts_other_runs_has_no_duration(record_002: ComparisonRecord) -> None:
    command = {"next_command": "maxview compare linen-vs-nnx --case 03_dropout --until-decided"}
    row = record_002.rows[0].model_copy(update={"verdict": "unknown", "cost_text": "about 5 hours"})
    logged = record_002.model_copy(update=command | {"comparison": "ingest"})
    trained = record_002.model_copy(update=command | {"comparison": "linen-vs-nnx"})
    assert [tell_cost(record, row) for record in (logged, trained)] == ["", "about 5 hours"]
