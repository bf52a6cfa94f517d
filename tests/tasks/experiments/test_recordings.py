"""Recordings whose trainer ends by itself: a failure after the first recorded call is a death, too."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.experiments.recordings import read_ends
from tasks.records.observation import Observation
from tasks.records.plan import RunPlan

pytestmark = pytest.mark.flows

FAILED = """\
XPK Start: Sun Nov 29 08:56:40 UTC 2026
Traceback (most recent call last):
  File "/checkout/train.py", line 7, in run
    step.seen = 1
AttributeError: seen
XPK End: Sun Nov 29 08:56:44 UTC 2026
EXIT_CODE={code}
"""


@pytest.mark.parametrize(("code", "died"), [(1, True), (0, False)])
@pytest.mark.parametrize("step", ["train_step", None])
def test_a_trainer_that_fails_is_a_death_whether_its_step_was_recorded_or_not(
    tmp_path: Path, make_plan: Callable[..., RunPlan], code: int, died: bool, step: str | None
) -> None:
    logs = tmp_path / "a.log", tmp_path / "b.log"
    logs[0].write_text(FAILED.format(code=0))
    logs[1].write_text(FAILED.format(code=code))
    plan = make_plan("", checkout="/checkout")
    ends = read_ends((Observation(step="train_step"), Observation(step=step)), logs, (plan, plan))
    assert ends[0] is None
    assert (ends[1] is not None) == died
    if ends[1] is not None and ends[1].error is not None:
        assert ends[1].error.place == "train.py:7 in run"
