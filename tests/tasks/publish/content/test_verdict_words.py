"""Short reasons: complete clauses, for every kind of reason in a comparison."""

from collections.abc import Callable
from typing import Any

import pytest

from tasks.diff.judge.metric_rows import show_difference
from tasks.diff.phrases.amounts import ONE_PROGRAM, ONE_RUN
from tasks.publish.content.verdict_words import difference_text, first_clauses, tell_again, unbroken
from tasks.records.compared_case import MetricDiff
from tasks.records.run_end import DeathKind, LogError


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (
            "equal to the last digit (whole numbers) at all 10 common steps: total_weights, lm_loss, perplexity",
            "equal to the last digit at all 10 common steps",
        ),
        (
            "steady steps +0.0 % (-4.6 … +4.9): too wide to tell ±2 % from none; run each arm 8 more times",
            "steady steps +0.0 %: too wide to tell ±2 % from none",
        ),
        (
            "steady steps -0.2 % (-1.5 … +1.1), inside ±2 % (it repeats to 0.4 % (or so)); one run of each",
            "steady steps -0.2 %, inside ±2 %; one run of each",
        ),
        (
            "waiting for checkpoints and the host, apart from the step time: storage decides it",
            "waiting for checkpoints and the host, apart from the step time",
        ),
        (
            "follows from the step time, which is judged, and from storage, restarts and the run's length; badput 3 %",
            "follows from the step time, which is judged, and from storage, restarts and the run's length",
        ),
        (
            "noise by construction: one program, source, config and software; measured +33.7 % (-40.7 … +201.5)",
            "noise by construction: one program, source, config and software",
        ),
        ("different versions: this alone can change speed, memory and losses", "different versions"),
        (
            "a sentence that goes on without any break until no table has room for it",
            "a sentence that goes on without any break until no table has room for it",
        ),
        (
            "both logs claim one commit, but ran different code on different JAX (0.9.2 and 0.8.1): 4 of the messages",
            "both logs claim one commit, but ran different code on different JAX",  # half of it would say the contrary
        ),
        (
            "median step +24.6 % (+22.1 … +27.0); equal runs differ by 0.41 % (stated), and the logs do not say where",
            "median step +24.6 %; equal runs differ by 0.41 %",  # the first clause alone repeats the table
        ),
        ("", ""),
    ],
)  # fmt: skip
def test_a_short_reason_consists_of_complete_clauses(reason: str, short: str) -> None:
    assert first_clauses(reason) == short


@pytest.mark.parametrize(
    ("evidence", "verdict", "words"),
    [
        (
            ONE_PROGRAM,
            "same",
            "-25.2 % (noise)",
        ),  # otherwise a large figure stands beside "same" without a reason
        (ONE_RUN, "regressed", "-25.2 % (one run of each)"),
        (ONE_RUN, "same", "-25.2 %"),
    ],
)
def test_a_difference_states_its_evidence(
    make_row: Callable[..., MetricDiff], evidence: str, verdict: str, words: str
) -> None:
    row = make_row("x", "X", ("0.4", "0.3", "-0.1"), verdict, "")
    reported = {"evidence": evidence, "difference": -0.1, "effect_text": "-25.2 %", "group": "ours"}
    assert difference_text(row.replace(**reported)) == words


def test_a_count_stays_on_one_line() -> None:
    pieces = unbroken("6.0 (2 × checkpoint, 1 × eval in 2 runs)").split(" ")
    assert pieces == ["6.0", "(2\u00a0×\u00a0checkpoint,", "1\u00a0×\u00a0eval", "in", "2", "runs)"]


@pytest.mark.parametrize(
    ("difference", "decimals", "group", "words"),
    [
        (-1215.012, 3, "maxview", "-1215.01"),
        (12345.6789, 4, "ours", "+12,345.7"),
        (12345.6789, 4, "maxview", "+12345.7"),
        (1234567.25, 2, "ours", "+1,234,567"),
        (-0.0007, 4, "ours", "-0.0007"),  # a small number keeps all digits
        (3.0, None, "ours", "—"),  # its values are texts
    ],
)
def test_a_difference_has_at_most_six_significant_digits(
    difference: float, decimals: int | None, group: Any, words: str, make_row: Callable[..., MetricDiff]
) -> None:
    text = show_difference(difference, decimals, thousands="" if group == "maxview" else ",")
    row = make_row("stall_s", "Stalls", ("", "", text), "not judged", "")
    assert difference_text(row.replace(difference=difference, decimals=decimals, group=group, unit="")) == words


@pytest.mark.parametrize(
    ("texts", "metric", "words"),
    [
        (("1.374", "1.430", "+0.056"), "avg_step_time_s", "+0.056 (+4.1 %)"),
        (("11.338", "11.302", "-0.036"), "tflops_per_device", "-0.036 (-0.3 %)"),
        (("6.981", "6.981", "0"), "final_loss", "0"),
        (("6.98104", "6.98004", "0"), "final_loss", "-0.01 %"),  # MaxView prints no difference
    ],
)
def test_a_row_of_maxview_shows_its_difference_beside_the_percentage(
    make_row: Callable[..., MetricDiff], texts: tuple[str, str, str], metric: str, words: str
) -> None:
    row = make_row(metric, "X", texts, "not judged", "")
    sides = {"baseline": float(texts[0]), "candidate": float(texts[1]), "group": "maxview"}
    assert difference_text(row.replace(**sides)) == words


@pytest.mark.parametrize(
    ("kind", "type", "again"),
    [("other", "NameError", "No"), ("other", "RuntimeError", "Not known"), ("preempted", "NameError", "Yes")],
)
def test_an_error_of_the_program_is_raised_again(kind: DeathKind, type: str, again: str) -> None:
    cause = LogError(type=type, message="m", line=1, offset=0, kind=kind)
    assert tell_again(cause).startswith(again)
