"""Logs from streams and folders, and the text that a reading's offsets refer to."""

import gzip
import io
from pathlib import Path
from typing import Any

import pytest

from tasks.scrape import LogFormatError, copy_log, scrape, scrape_folder, scrape_stream


def test_a_stream_reads_like_the_file(logs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    for data in (logs.framed(*logs.steps(50)), gzip.compress(logs.framed(*logs.steps(50)))):
        path.write_bytes(data)
        expected = scrape(path).runs[0].model_dump(exclude={"name"})
        for most in (1 << 20, 0):  # in memory, and in chunks
            monkeypatch.setattr("tasks.scrape.sources.WHOLE_UP_TO", most)
            run = scrape_stream(io.BytesIO(data)).runs[0]
            assert (run.name, run.model_dump(exclude={"name"})) == ("standard input", expected)
    with pytest.raises(LogFormatError, match="standard input: is empty"):
        scrape_stream(io.BytesIO(b""))


def test_a_folder(logs: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log.txt").write_bytes(logs.framed(*logs.steps(3)))
    (tmp_path / "b.gz").write_bytes(gzip.compress(logs.framed(*logs.steps(4))))
    (tmp_path / "config.yml").write_text("steps: 3\n")
    found = scrape_folder(tmp_path)
    assert {path.name: reading.runs[0].steps.height for path, reading in found.items()} == {"log.txt": 3, "b.gz": 4}
    (tmp_path / "c").mkdir()
    with pytest.raises(LogFormatError, match=r"c: none of its 0 files is a training log"):
        scrape_folder(tmp_path / "c")
    with pytest.raises(LogFormatError, match=r"config\.yml: is no folder"):
        scrape_folder(tmp_path / "config.yml")


def test_the_copy_is_the_text_of_the_offsets(logs: Any, tmp_path: Path) -> None:
    text = b"".join(b"[pod/job-0/jax] " + line for line in logs.framed(*logs.steps(9)).splitlines(keepends=True))
    (tmp_path / "log.gz").write_bytes(gzip.compress(text.replace(b"completed", b"\x1b[32mcompleted")))
    copy_log(tmp_path / "log.gz", tmp_path / "copy")
    data = (tmp_path / "copy").read_bytes()
    assert data == logs.framed(*logs.steps(9))
    for step, line, offset in scrape(tmp_path / "log.gz").runs[0].steps.select("step", "line", "offset").iter_rows():
        assert data[offset:].startswith(b"completed step: %d," % step)
        assert data.count(b"\n", 0, offset) + 1 == line
    two = text + text.replace(b"job-0", b"job-1")
    (tmp_path / "two").write_bytes(two)
    with pytest.raises(LogFormatError, match="holds the logs of job-0/jax, job-1/jax; name one of them"):
        copy_log(tmp_path / "two", tmp_path / "copy")
    copy_log(tmp_path / "two", tmp_path / "copy", source="job-1/jax")
    assert (tmp_path / "copy").read_bytes() == data
