"""Evaluations in the formats of MaxText from 2024 to today, one row each."""

from typing import Any

import pytest

from tasks.scrape import scrape_text


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # MaxText of early 2024, whose losses are arrays, and of late 2024
        (["average loss after step=99: eval_loss=Array(6.7126, dtype=float32), total_weights=256.0"],
         {"step": 99, "loss": 6.7126, "total_weights": 256.0, "eval_steps": None}),
        (["Completed eval step 0", "Completed eval step 1",
          "average loss after step=99: eval_step_count=2, eval_loss=6.7126, total_weights=256.0"],
         {"step": 99, "loss": 6.7126, "total_weights": 256.0, "eval_steps": 2}),
        (["average loss after step=99: eval_step_count=2, eval_loss=6.7126, total_weights=256.0"], {"eval_steps": 2}),
        # 0.2.2 with eval_interval=3 eval_steps=2
        (["Completed eval step 0", "Completed eval step 1",
          "eval metrics after step: 2, loss=6.701, perplexity=813.574, total_weights=256.0"],
         {"step": 2, "loss": 6.701, "perplexity": 813.574, "eval_steps": 2}),
        # 0.2.4 and 0.2.5
        (["Starting eval after train step 0",
          "Completed eval step: 0, seconds: 2.499, running loss=6.639, running total_weights=128.0",
          "Completed eval step: 1, seconds: 0.001, running loss=6.639, running total_weights=256.0",
          "Completed eval after train step 0, loss=6.639, perplexity=764.341, total_weights=256.0, avg_z_loss=0.000"],
         {"step": 0, "loss": 6.639, "avg_z_loss": 0.0, "eval_steps": 2, "eval_seconds": 2.5}),
        # damage made a word of the seconds of a step
        (["Completed eval step: 0, seconds: 2.4I9, running loss=6.639", "Completed eval step: 1, seconds: 0.001",
          "Completed eval after train step 0, loss=6.639"], {"loss": 6.639, "eval_steps": 2, "eval_seconds": 0.001}),
        # with multi-token prediction, and with NaN
        (["Completed eval after train step 5, loss=nan, avg_mtp_acceptance_rate=12.50%"],
         {"step": 5, "avg_mtp_acceptance_rate": 12.5}),
    ],
)  # fmt: skip
def test_wordings(logs: Any, lines: list[str], expected: dict[str, object]) -> None:
    (row,) = scrape_text(logs.framed(*map(logs.line, lines)), name="x").runs[0].evals
    assert {key: row[key] for key in expected} == expected


def test_evaluations_are_counted_separately(logs: Any) -> None:
    one = [logs.line(f"Completed eval step {n}") for n in range(3)]
    two = [logs.line(f"eval metrics after step: {step}, loss=6.701") for step in (2, 5)]
    evals = scrape_text(logs.framed(*one, two[0], *one[:2], two[1]), name="x").runs[0].evals
    assert [(row["step"], row["eval_steps"]) for row in evals] == [(2, 3), (5, 2)]
