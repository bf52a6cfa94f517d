"""A pipeline's schedule in a log of our own trainer."""

from pathlib import Path

import pytest

from configs.model_checks import Pipeline
from tasks.scrape.read_log import scrape

pytestmark = pytest.mark.flows

SHAPE = Pipeline(stages=2, chunks=2, layers=1, microbatches=4)
STEP = "completed step: {}, seconds: 0.500, TFLOP/s/device: 1.000, Tokens/s/device: 9.000, loss: 2.000"


def test_a_schedule_is_read(tmp_path: Path) -> None:
    from model.decoder.pipeline import schedule_events  # loads JAX, which no other test of the folder needs

    events = list(schedule_events(SHAPE))
    log = tmp_path / "log.txt"
    lines = ["System Information: Jax Version: 0.9.2", "stage: 2", *events, *(STEP.format(i) for i in range(3))]
    log.write_text("\n".join(lines) + "\n")
    (run,) = scrape(log).runs
    assert [
        f"rank {one['rank']} {one['direction']} {one['event']} tensor {one['tensor']}" for one in run.schedule
    ] == events
    assert [one["line"] for one in run.schedule] == list(range(3, 3 + len(events)))
    assert run.steps["step"].to_list() == [0, 1, 2]
    assert run.coverage.unread == ()
    # 4 microbatches through 2 chunks each, and no transfer in flight at the end
    done = {"started": 8, "finished": 8}
    for entry in run.ranks:
        assert (entry["schedule"]["forward"], entry["schedule"]["backward"]) == (done, done)
        assert entry["schedule"]["in_flight"] == []
