"""Evaluations in the formats of MaxText from 2024 to today; waits for saves and evaluations, within and after steps."""

from typing import Any

import pytest

from tasks.scrape.read_log import scrape_text


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


THREAD = "[process=0][thread=MainThread][step={}][wait_until_finished]"


def line(second: float, source: str, text: str) -> str:
    return f"I0418 18:10:{second:09.6f} 135278194456384 {source}] {text}\n"


def step(number: int, second: float, source: str = "metric_logger.py:196") -> str:
    return line(
        second,
        source,
        f"completed step: {number}, seconds: 0.100, TFLOP/s/device: 8.000, total_weights: 4096, loss: 8.000",
    )


def save(number: int, second: float, blocking: float) -> str:
    place = f"gs://b/run/checkpoints/{number}"
    return line(second, "checkpoint_manager.py:1512", f"[process=0] Saving checkpoint at step {number}") + line(
        second, "event_tracking.py:125", f"[process=0] [async] Finished blocking save in {blocking} seconds. "
        f"Continuing save @ {place}."
    )  # fmt: skip


def wait(number: int, begin: float, end: float) -> str:
    words = THREAD.format(number)
    thread = "Save Finalize thread (save_finalize)"
    return line(begin, "checkpoint_manager.py:2020", f"{words} Waiting for {thread} to complete.") + line(
        end, "checkpoint_manager.py:2032", f"{words} Done waiting for {thread} running at step={number}."
    )


def previous(second: float, seconds: float) -> str:
    reported = (
        f"Waiting for previous save to complete took {seconds:.6f} seconds. If this number is high, consider less."
    )
    return line(second, "checkpoint_manager.py:1452", reported)


def waits_of(*lines: str) -> list[tuple[str, float]]:
    text = "XPK Start: Sat Apr 18 18:10:00 UTC 2026\n" + "".join(lines)
    return [
        (found.part, pytest.approx(found.seconds)) for found in scrape_text(text.encode(), name="run.log").runs[0].waits
    ]


def test_the_final_save_is_outside_of_steps() -> None:
    before = [save(0, 1, 1.0), *(step(n, 2 + n / 10) for n in range(9))]
    after = [wait(0, 4, 24), previous(24, 20.25), save(9, 24.5, 0.75), wait(9, 25.5, 55.25), step(9, 55.5)]
    # a wait with printed seconds is not counted again by its two timestamps
    assert waits_of(*before, *after) == [
        ("waits for saves", 20.25), ("blocking saves", 0.75), ("wait at the end", 29.75),
    ]  # fmt: skip


def test_waits_within_step_times_are_not_counted_again() -> None:
    """MaxText prints a step one iteration late: a wait between two lines is part of a step three later."""
    middle = [wait(0, 2, 12), previous(12, 10.0), save(4, 12, 0.5)]
    assert waits_of(*(step(n, 1) for n in range(4)), *middle, *(step(n, 20 + n) for n in range(4, 10))) == []
    late = [*(step(n, 1) for n in range(8)), *middle, *(step(n, 20 + n) for n in range(8, 10))]
    assert waits_of(*late) == [("waits for saves", 10.0), ("blocking saves", 0.5)]


def test_a_trainer_that_prints_a_step_at_its_end() -> None:
    steps = [step(n, 1 + n, "train.py:10") for n in range(10)]
    middle = [previous(9, 5.0)]
    assert waits_of(*steps[:9], *middle, steps[9]) == []
    assert waits_of(*steps, *middle) == [("waits for saves", 5.0)]


def test_an_evaluation_after_the_last_step() -> None:
    steps = [step(n, 1 + n, "train.py:10") for n in range(4)]
    evals = [line(20 + n, "e.py:1", f"Completed eval step: {n}, seconds: 1.5") for n in range(2)]
    done = line(30, "e.py:2", "Completed eval after train step 3, loss=2.0")
    assert waits_of(*steps, *evals, done) == [("evaluation at the end", 3.0)]
    assert waits_of(*steps[:2], *evals, done, *steps[2:]) == []
