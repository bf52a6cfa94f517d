"""Following the log of a running job: every line and event as it is written, and the end in every form."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.launch.job import POLL_S
from tasks.launch.local.launcher import read_growing
from tasks.launch.logs import JobEvent, LogLine, watch
from tasks.records.log_reading import CheckpointCommitted, CheckpointStarted, RunEnded, StepCompleted

pytestmark = pytest.mark.flows

STEP = (
    "completed step: {0}, seconds: 0.500, TFLOP/s/device: 1.000, Tokens/s/device: 8.000, "
    "total_weights: 8, loss: 3.{0}00"
)
WRITER = """
import sys, time
log = open(sys.argv[1], "a")
def say(line):
    log.write(line + "\\n"); log.flush()
"""


def start(log: Path, body: str) -> "subprocess.Popen[bytes]":
    """A process that writes a log at its own pace."""
    return subprocess.Popen([sys.executable, "-c", WRITER + body, str(log)])


def follow(process: "subprocess.Popen[bytes]", log: Path, looks: list[bool] | None = None) -> Iterator[JobEvent]:
    """Return the observed events; `looks` gets, for each poll of the process, whether it was alive."""

    def is_alive() -> bool:
        alive = process.poll() is None
        if looks is not None:
            looks.append(alive)
        return alive

    return watch(read_growing(log, is_alive, poll_s=0.02))


def test_events_arrive_while_the_job_runs(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    go = tmp_path / "go"
    body = f"""
import os
say("XPK Start: Sat Apr 18 00:54:24 UTC 2026")
say({STEP.format(0)!r})
while not os.path.exists({str(go)!r}): time.sleep(0.02)
say({STEP.format(1)!r})
say("EXIT_CODE=0")
"""
    process = start(log, body)
    seen = []
    for event in follow(process, log):
        seen.append(event)
        if isinstance(event, StepCompleted) and event.step == 0:
            assert process.poll() is None  # it waits for the test: the first step was not seen only at the end
            go.touch()
    steps = [(event.step, event.seconds, event.loss) for event in seen if isinstance(event, StepCompleted)]
    assert steps == [(0, 0.5, 3.0), (1, 0.5, 3.1)]
    assert [event.exit_code for event in seen if isinstance(event, RunEnded)] == [0]
    assert [event.text for event in seen if isinstance(event, LogLine)] == log.read_text().splitlines()


def test_checkpoints_are_separate_events(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    prefix = "I0418 00:55:38.202609 135104514455360"
    body = f"""
say({STEP.format(0)!r})
say("{prefix} event_tracking.py:70] [process=0] [async] Started save checkpoint @ /runs/a/checkpoints/0.")
say("{prefix} checkpointing.py:408] Started an asynchronous checkpoint save for step 0")
say("{prefix} atomicity.py:847] [process=0][thread=async_save] Finished saving checkpoint (finalized tmp dir) to "
    "`/runs/a/checkpoints/0`.")
say("EXIT_CODE=0")
"""
    process = start(log, body)
    events = list(follow(process, log))
    started = [event for event in events if isinstance(event, CheckpointStarted)]
    committed = [event for event in events if isinstance(event, CheckpointCommitted)]
    assert [event.step for event in committed] == [0]
    assert started
    assert {event.step for event in started} == {0}
    assert events.index(started[0]) < events.index(committed[0])


@pytest.mark.parametrize("way", ["exception", "killed"])
def test_a_death_is_reported_at_the_next_poll(tmp_path: Path, way: str) -> None:
    log = tmp_path / "log.txt"
    body = f"say({STEP.format(0)!r})\n" + (
        "say('Traceback (most recent call last):')\n"
        "say('  File \"/deps/train.py\", line 7, in <module>')\n"
        "say('    main()')\n"
        "say('ValueError: the mesh has no axis fsdp')\n"
        "say('EXIT_CODE=1')\n"
        if way == "exception"
        else "time.sleep(600)\n"
    )
    process = start(log, body)

    def end() -> None:
        while not log.exists() or not log.stat().st_size:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)

    killer = threading.Thread(target=end)
    if way == "killed":
        killer.start()
    reported = []
    looks: list[bool] = []
    for event in follow(process, log, looks):
        if isinstance(event, RunEnded):
            reported.append((looks.count(False), event))
    (looks_since, event) = reported[0]
    if way == "killed":
        killer.join()
    assert looks_since <= 1  # at distinct times, even on a busy machine
    assert POLL_S <= 2.0
    if way == "exception":
        assert (event.error.type, event.error.message) == ("ValueError", "the mesh has no axis fsdp")
    else:
        assert event == RunEnded()


def test_a_job_without_a_log_is_gone(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    assert list(follow(process, tmp_path / "log.txt")) == [RunEnded()]
