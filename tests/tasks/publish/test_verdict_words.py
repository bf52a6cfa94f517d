"""Short reasons: whole clauses that say something, for every kind of reason that a comparison gives."""

from collections.abc import Callable

import pytest

from tasks.publish.verdict_words import short_reason
from tasks.records import MetricDiff


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (
            "equal to the last digit (whole numbers) at all 10 common steps: total_weights, lm_loss, perplexity",
            "equal to the last digit at all 10 common steps",
        ),
        (
            "quick steps +0.0 % (-4.6 … +4.9): neither inside ±2 % nor surely different; run 8 more (49 minutes)",
            "quick steps +0.0 %: neither inside ±2 % nor surely different",
        ),
        (
            "quick steps -0.2 % (-1.5 … +1.1), inside ±2 % (it repeats to 0.4 % (or so)); one run of each",
            "quick steps -0.2 %, inside ±2 %; one run of each",
        ),
        (
            "waiting for checkpoints and the host, kept apart from the step time: storage decides it",
            "waiting for checkpoints and the host",
        ),
        ("different versions: this alone can change speed, memory and losses", "different versions"),
        (
            "a sentence that goes on without any break until no table has room for it",
            "a sentence that goes on without any break until no table has …",
        ),
        ("", ""),
    ],
)  # fmt: skip
def test_a_short_reason_is_whole_clauses(make_row: Callable[..., MetricDiff], reason: str, short: str) -> None:
    assert short_reason(make_row("x", "X", ("1", "2", "1"), "unknown", reason)) == short
