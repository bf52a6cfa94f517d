"""Goodput: the share of a run's wall time in steps that counted, by hand from the log of an hour."""

from pathlib import Path
from typing import Any

import pytest

from questions.history.page import title_of
from questions.history.record_rows import history_rows, run_values
from tasks.diff.compare_logs import archive, compare_pair
from tasks.ingest.given_logs import read_pair
from tasks.store.store import Store

type Logs = Any


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "out")


def write(logs: Logs, path: Path, *, repeated: int = 0) -> Path:
    """A framed log of 3600 s: a first step of 1000 s, 20 of 100 s, preceded by steps that a restart repeats."""
    lines = [logs.line(logs.step_text(0, seconds=1000.0), second=1100)]
    for n in (*range(1, repeated + 1), *range(1, 21)):
        lines.append(logs.line(logs.step_text(n, seconds=100.0), second=1100 + 100 * len(lines)))
    path.write_bytes(logs.framed(*lines))
    return path


@pytest.mark.parametrize(("repeated", "wasted"), [(0, 0.0), (3, 300.0)])
def test_goodput_and_badput_add_up_to_the_wall_time(
    repeated: int, wasted: float, logs: Logs, store: Store, tmp_path: Path
) -> None:
    files = [write(logs, tmp_path / "a.txt"), write(logs, tmp_path / "b.txt", repeated=repeated)]
    records = archive(read_pair(files), store)
    record = compare_pair(records, case="01_base", aa=True)
    (row,) = [row for row in record.rows if row.metric == "goodput"]
    # 21 steps of 100 s out of 3600 s: the first one took 900 s longer, which its compilation explains
    assert row.baseline == pytest.approx(100 * 2100 / 3600)
    assert (row.baseline_text, row.verdict) == ("58.3", "not judged")
    assert row.candidate == pytest.approx(100 * 2100 / 3600)
    _, of_baseline, of_candidate = row.reason.split("badput ")
    assert "program startup 25.0 %" in of_baseline
    assert ("wasted progress 8.3 %" in of_candidate) is (wasted > 0)
    words = of_candidate.split(", ")
    badput = sum(float(word.split()[-2]) for word in words)
    assert row.candidate is not None
    assert row.candidate + badput == pytest.approx(100, abs=0.05 * (len(words) + 1))
    kept = history_rows(record, records).filter(metric="goodput")
    assert kept["value"].to_list() == [pytest.approx(row.baseline), pytest.approx(row.candidate)]
    assert title_of("goodput") == "Goodput"


def test_a_slower_step_does_not_improve_goodput(logs: Logs, store: Store, tmp_path: Path) -> None:
    """The slower arm computes for a larger share of its time: neither direction is better."""
    files = [tmp_path / name for name in ("a.txt", "b.txt")]
    for file, seconds in zip(files, (100.0, 108.0), strict=True):
        lines = [logs.line(logs.step_text(0, seconds=1000.0), second=1100)]
        lines += [logs.line(logs.step_text(n, seconds=seconds), second=1100 + int(seconds) * n) for n in range(1, 21)]
        file.write_bytes(logs.framed(*lines))
    records = archive(read_pair(files), store)
    (row,) = [row for row in compare_pair(records, case="01_base", aa=True).rows if row.metric == "goodput"]
    assert row.difference is not None
    assert row.difference > 0
    (better,) = {value["better"] for run in records for value in run_values(run) if value["metric"] == "goodput"}
    assert better == "equal"


def test_a_log_without_an_end_has_no_goodput(logs: Logs, store: Store, tmp_path: Path) -> None:
    files = [write(logs, tmp_path / name) for name in ("a.txt", "b.txt")]
    text = files[1].read_text().partition("XPK End")[0]
    files[1].write_text(text)
    record = compare_pair(archive(read_pair(files), store), case="01_base", aa=True)
    assert "goodput" not in {row.metric for row in record.rows}
    assert "Goodput" not in record.absent
