"""The clock of a step: time that its threads wait for a processor is measured separately."""

import time
from pathlib import Path

import pytest

from model.train import clock
from model.train.clock import StepClock, wait_share


def test_the_share_of_waits_by_hand() -> None:
    before = {"1": (10, 0), "2": (0, 0)}
    # the first ran 20 and waited 10, the second ran 10 and waited 50, a third one began: 30 of both
    after = {"1": (30, 10), "2": (10, 50), "3": (30, 30)}
    assert wait_share(before, after) == pytest.approx(90 / 150)
    assert wait_share(before, before) == 0.0
    assert wait_share({}, {}) == 0.0


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
