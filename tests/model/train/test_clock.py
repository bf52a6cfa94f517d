"""The clock of a step: time that its threads wait for a processor is measured separately."""

import time
from pathlib import Path

import pytest

from model.train import clock
from model.train.clock import DEVICE, StepClock, Threads, waited_seconds

pytestmark = pytest.mark.flows


def test_the_share_of_waits_by_hand() -> None:
    before = {"1": (10, 0), "2": (0, 0)}
    # the first ran 20 and waited 10, the second ran 10 and waited 50, a third one began: 30 of both
    after = {"1": (30, 10), "2": (10, 50), "3": (30, 30)}
    assert waited_seconds(75e-9, before, after) == pytest.approx(75e-9 * 90 / 150)
    assert waited_seconds(1.0, before, after) == pytest.approx(90e-9)  # most of this second all threads slept
    assert waited_seconds(1.0, before, before) == 0.0
    assert waited_seconds(1.0, {}, {}) == 0.0


def test_a_sleep_beside_other_load_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs hold the device's threads for three quarters of their time, and the loop then sleeps: the whole
    sleep remains."""
    loop, worker = [0, 0], [0, 0]

    def read() -> Threads:
        return {"loop": (loop[0], loop[1]), "worker": (worker[0], worker[1])}

    monkeypatch.setattr(clock, "read_threads", read)
    monkeypatch.setattr(clock, "read_counts", lambda _thread: (loop[0], loop[1]))
    measured = StepClock()
    measured.thread = "loop"
    with measured.part(DEVICE):
        time.sleep(0.02)
        worker[0] += 10_000_000
        worker[1] += 30_000_000
    time.sleep(0.1)
    loop[1] += 1_000_000  # the loop wakes a millisecond late
    wall, _, waited, parts = measured.finish()
    assert waited == pytest.approx(0.75 * parts[DEVICE] + 0.001)
    assert wall - waited > 0.1


def test_a_sleeping_step_does_not_wait_for_a_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured = StepClock()
    time.sleep(0.05)
    wall, used, waited, _ = measured.finish()
    assert wall >= 0.05
    assert used < 0.05
    assert 0 <= waited <= wall
    monkeypatch.setattr(clock, "THREADS", tmp_path)  # a system without these counters
    blind = StepClock()
    assert blind.finish()[2] == 0.0
