"""Batches that one run stores are used by the other arm's run, up to the limit of their size."""

import json
from pathlib import Path

import numpy as np
import pytest

from maxview_probe.observe import share_start
from maxview_probe.observe.observation_files import START, RecorderSettings

pytestmark = pytest.mark.flows

BATCH = {0: "batch['inputs']"}  # index of an argument → its name


def sharer(folder: Path, start: Path | None = None) -> share_start.StartSharer:
    folder.mkdir()
    made = share_start.StartSharer(RecorderSettings(folder=folder, start=start))
    made.fresh = dict(BATCH)
    return made


def test_after_the_limit_each_run_trains_on_its_own_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_start, "MAX_BATCH_BYTES", 100)  # two batches of 48 bytes
    theirs = [np.full(6, float(step)) for step in range(4)]
    ours = [np.full(6, 10.0 + step) for step in range(4)]
    storing = sharer(tmp_path / "first")
    for step, batch in enumerate(theirs):
        if not storing.ended:
            storing.share_batch([batch], step)
    taking = sharer(tmp_path / "second", start=tmp_path / "first")
    taking.write_report(replaced=["params['w']"], kept={}, unused=[], own_values=[])
    used = []
    for step, batch in enumerate(ours):
        used.append(batch if taking.ended else taking.share_batch([batch], step)[0])
    assert [float(np.asarray(batch)[0]) for batch in used] == [0.0, 1.0, 12.0, 13.0]
    report = json.loads((tmp_path / "second" / START).read_text())
    assert (report["own_batches_from"], report["replaced"]) == (2, ["params['w']"])
