"""Checkpoints, deaths and stalls: real events of a run, and lines that only look like them."""

from typing import Any

import pytest

from tasks.records.log_reading import RunReading
from tasks.scrape.read_log import scrape_text

PATH = "gs://b/run/checkpoints"
SAVING = "[process={process}] Saving checkpoint at step {step}"
STARTED = "[process={process}] [async] Started save checkpoint @ " + PATH + "/{step}."
COMMIT = "[process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to `" + PATH + "/{step}`."
BACKGROUND = "[process={process}][thread=async_save] Background save thread done. Time taken: 40.5s."
FINALIZED = (
    "[process={process}][thread=save_finalize][step={step}] CheckpointManager Save Finalize is done on all hosts."
)
ANNOUNCED = "Started an asynchronous checkpoint save for step {step}"


def run_of(logs: Any, *texts: str, code: int | None = 0, process: int = 0, step: int = 0) -> RunReading:
    data: bytes = logs.framed(*(logs.line(text.format(process=process, step=step)) for text in texts), code=code or 0)
    if code is None:
        data = data[: data.index(b"XPK End")]
    return scrape_text(data, name="x").runs[0]


@pytest.mark.parametrize(
    ("texts", "code", "process", "committed"),
    [
        ((SAVING, STARTED, BACKGROUND, COMMIT), 0, 0, True),
        ((SAVING, STARTED, ANNOUNCED), 0, 0, False),  # the announcement is not the commit
        ((SAVING, STARTED, BACKGROUND, FINALIZED), 0, 0, False),
        ((SAVING, STARTED, BACKGROUND, FINALIZED), 0, 4, None),  # this host does not print it
        ((SAVING, STARTED, BACKGROUND), None, 0, None),  # may still come
        ((ANNOUNCED,), 0, 0, None),  # the log does not show which host this is
    ],
)
def test_committed_only_if_the_log_shows_it(
    logs: Any, texts: tuple[str, ...], code: int | None, process: int, committed: bool | None
) -> None:
    (event,) = run_of(logs, *texts, code=code, process=process).checkpoints
    assert event.committed is committed
    assert (event.committed_line is None) == (committed is not True)


def test_a_step_saved_again_after_a_rewind(logs: Any) -> None:
    run = run_of(logs, SAVING, STARTED, COMMIT, SAVING, STARTED, code=1, step=5)
    assert [(event.step, event.committed) for event in run.checkpoints] == [(5, True), (5, False)]


def test_old_orbax(logs: Any) -> None:
    run = run_of(
        logs,
        SAVING,
        "[process={process}] Started async saving checkpoint to " + PATH + "/{step}.",
        "Finished blocking save. Time taken: 2.073279s. Continuing background save to " + PATH + "/{step}.",
        COMMIT,
        step=7,
    )
    (event,) = run.checkpoints
    assert (event.step, event.path, event.blocking_s, event.committed) == (7, f"{PATH}/7", 2.073279, True)


TRACEBACK = 'Traceback (most recent call last):\n  File "/x/maxtext/a.py", line 3, in f\n    g()\n{error}'


def test_the_last_exception_is_the_cause(logs: Any) -> None:
    first, second = (
        TRACEBACK.format(error="KeyError: 'a'"),
        TRACEBACK.format(error="jax.errors.JaxRuntimeError: INTERNAL: b"),
    )
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    run = scrape_text(logs.framed(*logs.steps(2), first + "\n" + between + second, code=1), name="x").runs[0]
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("jax.errors.JaxRuntimeError", "INTERNAL: b")


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "maxtext.exceptions.StopTraining: enough", "AssertionError"])
def test_exceptions_of_all_kinds(logs: Any, error: str) -> None:
    run = scrape_text(logs.framed(TRACEBACK.format(error=error), code=1), name="x").runs[0]
    assert run.error is not None
    assert f"{run.error.type}: {run.error.message}".removesuffix(": ") == error


def test_other_threads_may_log_inside_a_traceback(logs: Any) -> None:
    text = TRACEBACK.format(error="ValueError: shapes").replace("    g()", "    g()\n" + logs.line("still saving"))
    run = scrape_text(logs.framed(text, code=1), name="x").runs[0]
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("ValueError", "shapes")


HARMLESS = (
    "2026-04-18 00:54:48.104797: E external/xla/cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: 303",
    "PyTorch was not found. Models won't be available",
    "E0000 00:00:1776580922.267230 10 cuda_dnn.cc:8579] Unable to register cuDNN factory",
    "Exception ignored in: <function A.__del__ at 0x7f>\n" + TRACEBACK.format(error="AttributeError: 'A'"),
)


@pytest.mark.parametrize("text", HARMLESS)
@pytest.mark.parametrize("code", [0, 1])
def test_harmless_errors_never_count(logs: Any, text: str, code: int) -> None:
    assert scrape_text(logs.framed(text, *logs.steps(3), code=code), name="x").runs[0].error is None


def test_a_survived_exception(logs: Any) -> None:
    survived = TRACEBACK.format(error="TimeoutError: metrics server")
    lines = [*logs.steps(2), survived, *[logs.step(step) for step in (2, 3)]]
    assert scrape_text(logs.framed(*lines, code=0), name="x").runs[0].error is None
    killed = scrape_text(logs.framed(*lines, code=137), name="x").runs[0].error
    assert killed is not None
    assert (killed.type, killed.kind, killed.line) == ("SIGKILL", "killed", 11)  # the line of the exit code
    still_running = logs.framed(*lines).split(b"XPK End")[0]
    assert scrape_text(still_running, name="x").runs[0].error is None


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("Aborting training due to NaN loss.", "SystemExit", "Aborting training due to NaN loss."),
        ("Fatal Python error: Segmentation fault\n", "Fatal Python error", "Segmentation fault"),
        ("F0418 00:00:01.000000 1351 client.h:80] Terminating process because", "Fatal", "Terminating process because"),
        # google/grain#802, pytorch/xla#7138, jax#19603
        ("2025-04-05 18:39:10.838153: F external/xla/xla/a.h:80] Terminating", "Fatal", "Terminating"),
        ("F0000 00:00:1716973077.466057    9049 a.cc:487] Non-OK-status: status", "Fatal", "Non-OK-status: status"),
        (
            "*** SIGFPE (@0x7f4c7a8872ec), see go/stacktraces#s15 received by PID 23844 (TID 23844) on cpu 16;",
            "SIGFPE",
            "*** SIGFPE (@0x7f4c7a8872ec), see go/stacktraces#s15 received by PID 23844 (TID 23844) on cpu 16;",
        ),
    ],
)
def test_other_last_messages(logs: Any, text: str, kind: str, message: str) -> None:
    error = scrape_text(logs.framed(*logs.steps(2), text, code=1), name="x").runs[0].error
    assert error is not None
    assert (error.type, error.message, error.line) == (kind, message, 4)


def stalls_of(
    logs: Any, seconds: dict[int, float], count: int = 30, extra: dict[int, str] | None = None
) -> dict[int, str]:
    lines = []
    for step in range(count):
        lines += [logs.line(text) for text in (extra or {}).get(step, "").split("|") if text]
        lines.append(logs.line(logs.step_text(step, seconds=seconds.get(step, 0.2)), step, "report.py:109"))
    return {stall.step: stall.cause for stall in scrape_text(logs.framed(*lines), name="x").runs[0].stalls}


def test_causes_of_stalls(logs: Any) -> None:
    seconds = {0: 40.0, 8: 0.39, 9: 0.01, 12: 9.0, 20: 5.0, 25: 2.0}
    saving = SAVING.format(process=0, step=10), BACKGROUND.format(process=0, step=10)
    extra = {11: saving[0], 13: saving[1], 20: "Completed eval after train step 19, loss=7.1"}
    assert stalls_of(logs, seconds, extra=extra) == {0: "compile", 12: "checkpoint", 20: "eval", 25: "unexplained"}


def test_compensated_time_is_dispatch(logs: Any) -> None:
    assert stalls_of(logs, {8: 0.65, 9: 0.01, 10: 0.12}) == {8: "dispatch"}


def test_a_restart_has_a_separate_cost(logs: Any) -> None:
    lines = [
        logs.step(step, seconds=20.0 if i in (0, 12) else 0.2) for i, step in enumerate([*range(12), *range(8, 20)])
    ]
    stalls = scrape_text(logs.framed(*lines), name="x").runs[0].stalls
    assert [(stall.step, stall.cause) for stall in stalls] == [(0, "compile"), (8, "restart")]


def test_steady_steps_have_no_stalls(logs: Any) -> None:
    assert stalls_of(logs, {step: 0.2 + step % 3 / 100 for step in range(30)}) == {}
    assert stalls_of(logs, {}, count=1) == {}
    # if half of the steps are long, the run has two speeds, not fifteen stalls
    assert len(stalls_of(logs, dict.fromkeys(range(0, 30, 2), 2.0))) < 3
