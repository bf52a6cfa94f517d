"""Logs from streams and folders, and the text to which a reading's offsets refer."""

import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage

from tasks.ingest.log_sources import list_logs, local_copies, read_sources, scrape_stream
from tasks.scrape.read_log import copy_log, scrape
from tasks.scrape.window import LogFormatError
from tasks.store.gcs import GcsFiles
from tests.wording.sentences import Wording


def test_a_stream_reads_like_the_file(logs: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for data in (logs.framed(*logs.steps(50)), gzip.compress(logs.framed(*logs.steps(50)))):
        path.write_bytes(data)
        expected = scrape(path).runs[0].model_dump(exclude={"name"})
        run = scrape_stream(io.BytesIO(data)).runs[0]
        assert (run.name, run.model_dump(exclude={"name"})) == ("standard input", expected)
    with pytest.raises(LogFormatError, match="standard input: is empty"):
        scrape_stream(io.BytesIO(b""))


def test_a_folder(logs: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log.txt").write_bytes(logs.framed(*logs.steps(3)))
    (tmp_path / "b.gz").write_bytes(gzip.compress(logs.framed(*logs.steps(4))))
    (tmp_path / "config.yml").write_text("steps: 3\n")
    found = read_sources([str(tmp_path)])
    assert {run.name: run.steps.height for run in found.runs} == {"log": 3, "b": 4}
    (tmp_path / "c").mkdir()
    with pytest.raises(LogFormatError, match=r"c: none of its 0 files is a training log"):
        read_sources([str(tmp_path / "c")])


def test_offsets_refer_to_the_copied_text(logs: Any, tmp_path: Path, wording: Wording) -> None:
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
    with pytest.raises(LogFormatError, match="job-0/jax, job-1/jax; ") as error:
        copy_log(tmp_path / "two", tmp_path / "copy")
    wording("errors", error.value)
    copy_log(tmp_path / "two", tmp_path / "copy", source="job-1/jax")
    assert (tmp_path / "copy").read_bytes() == data


def test_several_sources_are_one_reading(logs: Any, tmp_path: Path) -> None:
    for name, steps in (("a/run.log", 3), ("b/run.log", 4), ("c/other.log", 5)):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_bytes(logs.framed(*logs.steps(steps)))
    (tmp_path / "c" / "notes.txt").write_text("no log\n")
    names = [str(tmp_path / "a/run.log"), str(tmp_path / "b/run.log"), str(tmp_path / "c"), "-"]
    reading = read_sources(names, stream=io.BytesIO(logs.framed(*logs.steps(6))))
    assert reading.format == "maxtext"
    assert [(run.name, run.steps.height) for run in reading.runs] == [
        (f"run ({names[0]})", 3), (f"run ({names[1]})", 4), ("other", 5), ("standard input", 6),
    ]  # fmt: skip
    assert [run.name for run in read_sources(names[:1]).runs] == ["run"]
    with pytest.raises(LogFormatError) as refused:
        read_sources([*names, str(tmp_path / "gone.log"), str(tmp_path / "c" / "notes.txt")])
    assert [line.split(": ")[0] for line in str(refused.value).splitlines()] == [
        "-", str(tmp_path / "gone.log"), str(tmp_path / "c" / "notes.txt"),
    ]  # fmt: skip


class Pipe(io.RawIOBase):
    """The output of a job, piece by piece, until an interruption."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def read1(self, size: int) -> bytes:
        if not self.pieces:
            raise KeyboardInterrupt
        return self.pieces.pop(0)


def test_an_interrupted_stream_gives_the_received_part(logs: Any) -> None:
    reported: list[tuple[int, bytes]] = []
    data = logs.framed(*logs.steps(9))
    cut = data.index(b"completed step: 5")
    pieces = [data[:cut], data[cut : cut + 30]]
    stream: Any = Pipe(list(pieces))
    run = scrape_stream(stream, on_progress=lambda size, line: reported.append((size, line))).runs[0]
    assert run.steps["step"].to_list() == list(range(5))
    assert not run.coverage.complete
    assert reported[0] == (cut, data[:cut].splitlines()[-2])
    nothing: Any = Pipe([])
    with pytest.raises(KeyboardInterrupt):
        scrape_stream(nothing)


def test_addresses_in_buckets(logs: Any, gcs_url: str) -> None:
    files = GcsFiles(gcs_url)
    files.write("runs/a/log.txt", logs.framed(*logs.steps(3)))
    files.write("runs/a/log.txt.gz", gzip.compress(logs.framed(*logs.steps(4))))
    files.write("runs/a/config.yml", b"steps: 3\n")
    files.write("runs/a/empty", b"")
    files.write("runs/a/d/array", b"\0" * 100_000)
    files.write("runs/ab/log.txt", logs.framed(*logs.steps(5)))
    one = read_sources([f"{gcs_url}/runs/a/log.txt"]).runs[0]
    assert one.steps.height == 3
    for folder in (f"{gcs_url}/runs/a", f"{gcs_url}/runs/a/"):
        assert [run.steps.height for run in read_sources([folder]).runs] == [3, 4]
    assert list_logs(f"{gcs_url}/runs/a") == [f"{gcs_url}/runs/a/{n}" for n in ("config.yml", "log.txt", "log.txt.gz")]
    with pytest.raises(LogFormatError, match=r"/runs/x: there is no object "):
        read_sources([f"{gcs_url}/runs/x"])
    with pytest.raises(LogFormatError, match=r"/runs/a/config\.yml: contains no training log"):
        read_sources([f"{gcs_url}/runs/a/config.yml"])
    with pytest.raises(LogFormatError, match=r"gs://other-bucket: there is no such bucket"):
        read_sources(["gs://other-bucket/x"])
    with pytest.raises(LogFormatError, match=r"gs://: is not a bucket"):
        read_sources(["gs://"])


def test_an_object_stored_as_gzip(logs: Any, gcs_url: str) -> None:
    text = logs.framed(*logs.steps(6))
    blob = storage.Client().bucket("bucket").blob(f"{gcs_url.removeprefix('gs://bucket/')}/log.txt")
    blob.content_encoding = "gzip"  # as gsutil cp -z and gcloud storage cp --gzip-local store it
    blob.upload_from_string(gzip.compress(text), content_type="text/plain")
    assert read_sources([f"{gcs_url}/log.txt"]).runs[0].steps.height == 6


def test_logs_of_a_bucket_are_copied_and_the_copies_removed(logs: Any, gcs_url: str, tmp_path: Path) -> None:
    for arm in ("linen", "nnx"):
        GcsFiles(gcs_url).write(f"{arm}/log.txt", logs.framed(*logs.steps(3)))
    (tmp_path / "log.txt").write_bytes(b"here")
    with local_copies([f"{gcs_url}/linen/log.txt", f"{gcs_url}/nnx/log.txt", str(tmp_path / "log.txt")]) as paths:
        assert [path.parent.name for path in paths[:2]] == ["linen", "nnx"]
        assert paths[0].read_bytes() == logs.framed(*logs.steps(3))
        assert paths[2] == tmp_path / "log.txt"
    assert [path.exists() for path in paths] == [False, False, True]


def test_a_page_in_an_archive(seeds: Path, tmp_path: Path) -> None:
    page = next(path for path in sorted(seeds.iterdir()) if path.is_file() and len(scrape_or_none(path)) == 2)
    (tmp_path / "page.gz").write_bytes(gzip.compress(page.read_bytes()))
    plain, packed = scrape(page), scrape(tmp_path / "page.gz")
    assert packed.page == plain.page
    assert packed.page is not None
    for one, other in zip(plain.runs, packed.runs, strict=True):
        assert other.coverage.unwrapped == ("gzip",)
        assert one.model_dump(exclude={"coverage"}) == other.model_dump(exclude={"coverage"})


def scrape_or_none(path: Path) -> tuple[Any, ...]:
    try:
        reading = scrape(path)
    except LogFormatError:
        return ()
    return reading.runs if reading.page else ()
