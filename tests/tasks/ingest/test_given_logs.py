"""Given logs are read once, however often a process opens them."""

import os
from pathlib import Path

import pytest

from tasks.ingest import given_logs
from tasks.ingest.given_logs import open_arms

LOGS = [Path("tests/samples/maxview") / f"13_eval-{name}.txt" for name in ("linen", "nnx")]


def test_a_log_is_read_once_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [tmp_path / path.name for path in LOGS]
    for log, sample in zip(logs, LOGS, strict=True):
        log.write_text(sample.read_text())
    read: list[Path] = []
    scrape = given_logs.scrape
    monkeypatch.setattr(given_logs, "scrape", lambda path: (read.append(path), scrape(path))[1])
    sides = [str(logs[0])], [str(logs[1])]
    with open_arms(sides) as first, open_arms(sides) as second:
        assert first.baseline[0].reading.steps is second.baseline[0].reading.steps
    monkeypatch.chdir(tmp_path)
    with open_arms(([logs[0].name], [logs[1].name])):  # the flow has absolute paths, the command line may not
        assert read == logs
    os.utime(logs[1], ns=(0, 0))
    with open_arms(sides):
        assert read == [*logs, logs[1]]
