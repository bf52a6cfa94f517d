"""Causes of slow steps, in logs that print a step at its end and in MaxText logs, which print it later."""

from typing import Any

from tasks.scrape.read_log import scrape_text


def causes(data: bytes) -> dict[int, str]:
    return {stall.step: stall.cause for stall in scrape_text(data, name="x").runs[0].stalls}


def late_log(logs: Any, seconds: dict[int, float], done: dict[int, list[str]], count: int = 16) -> bytes:
    """As MaxText prints: the events after step n, then the line of step n - 1. done: iteration -> lines."""
    lines = []
    for step in range(count + 1):
        lines += [logs.line(text) for text in done.get(step, [])]
        if step:
            lines.append(logs.step(step - 1, seconds=seconds.get(step - 1, 0.2)))
    data: bytes = logs.framed(*lines)
    return data


def saving(step: int) -> list[str]:
    return [
        f"[process=0] Saving checkpoint at step {step}",
        f"[process=0][thread=MainThread] Finished saving checkpoint (finalized tmp dir) to `/r/checkpoints/{step}`.",
    ]


def test_the_step_after_an_evaluation_is_slow_because_of_it(logs: Any) -> None:
    # MaxText 0.2.4 with eval_interval=3: `Completed eval after train step 3` stands before the line of step 3, and its
    # time is in step 4's; 0.2.2 says `eval metrics after step: 3`, MaxText of 2024 `average loss after step=3`
    for text in ("Completed eval after train step 3, loss=6.6", "eval metrics after step: 3, loss=6.6",
                 "average loss after step=3: eval_step_count=2, eval_loss=6.6, total_weights=256.0"):  # fmt: skip
        assert causes(late_log(logs, {0: 5.0, 4: 2.8}, {3: [text]})) == {0: "compile", 4: "eval"}


def test_the_step_after_a_synchronous_save_is_slow_because_of_it(logs: Any) -> None:
    assert causes(late_log(logs, {8: 3.0}, {7: saving(7)})) == {8: "checkpoint"}
    # an earlier event explains nothing
    assert causes(late_log(logs, {13: 3.0}, {7: saving(7)})) == {13: "unexplained"}


def test_a_log_that_prints_steps_at_once(logs: Any) -> None:
    # our own trainer saves a step, and then prints it
    def log(slow: int, saved: int, over: int) -> bytes:
        lines = []
        for n in range(16):
            lines += [logs.line(saving(saved)[0])] if n == saved else []
            lines += [logs.line(saving(saved)[1])] if n == over else []
            lines.append(logs.line(logs.step_text(n, seconds=3.0 if n == slow else 0.2), n, "report.py:109"))
        data: bytes = logs.framed(*lines)
        return data

    assert causes(log(slow=9, saved=8, over=10)) == {9: "checkpoint"}
    assert causes(log(slow=9, saved=6, over=8)) == {9: "unexplained"}


def test_profiler(logs: Any) -> None:
    # MaxText 0.2.4 with profiler=xplane skip_first_n_steps_for_profiler=2 profiler_steps=3: collected after step 4
    collected = ["Profiler session collecting data.", "Profiler session tear down."]
    evaluated = {9: ["Completed eval after train step 9, loss=6.6"]}
    assert causes(late_log(logs, {5: 0.9}, {4: collected, **evaluated})) == {5: "profiler"}
    # logs without the profiler's own lines have the settings
    config = ("profiler: xplane", "profiler_steps: 3", "skip_first_n_steps_for_profiler: 2")
    settings = [f"Config param {text}" for text in config]
    assert causes(late_log(logs, {5: 0.9}, {0: settings})) == {5: "profiler"}
    off = ["Config param profiler: ProfilerType.NONE", *settings[1:]]
    assert causes(late_log(logs, {5: 0.9}, {0: off})) == {5: "unexplained"}


def test_a_profiler_step_without_its_time(logs: Any) -> None:
    lines = [logs.step(step, seconds=0.9 if step == 7 else 0.2) for step in range(16)]
    lines[6] = logs.line("completed profiler activation/deactivation step: 6, total_weights: 65536, loss: 8.125")
    assert causes(logs.framed(*lines)) == {7: "profiler"}


def test_another_process_is_a_restart_even_without_a_repeated_step(logs: Any) -> None:
    started = logs.line("System Information: Jax Version: 0.10.2")
    lines = [logs.step(step, seconds=9.0 if step in (0, 8) else 0.2) for step in range(16)]
    data = logs.framed(started, *lines[:8], started, *lines[8:])
    assert causes(data) == {0: "compile", 8: "restart"}


def test_the_second_step_contains_the_first_ones_execution(logs: Any) -> None:
    # MaxText 0.2.4, 4 layers of 256: 1.771, 11.330, 2.4 … seconds
    assert causes(late_log(logs, {0: 1.8, 1: 11.3}, {})) == {0: "compile", 1: "compile"}


def test_another_batch_size_needs_a_compilation(logs: Any) -> None:
    # MaxText 0.2.4 with enable_rampup_batch_size=true: steps have 64 weights, then 128
    text = "[Rampup Batch Size Phase], completed step: {}, seconds: {:.3f}, total_weights: {}, loss: 6.6{:02d}"
    lines = [logs.line(text.format(n, 4.8 if n == 8 else 0.2, 64 if n < 8 else 128, n)) for n in range(16)]
    assert causes(logs.framed(*lines)) == {8: "compile"}
