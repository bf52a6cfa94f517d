"""A store in a bucket: runs are written in a folder, uploaded when finished, and never written by two machines."""

import json
import re
from pathlib import Path

import pytest

from configs.read import CONFIG_ROOT
from tasks.launch.cluster.handle import ClusterHandle
from tasks.launch.known_backends import read_handle
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tasks.store.atomic import StoreError
from tasks.store.claims import TakenError
from tasks.store.gcs import GcsFiles
from tasks.store.json_records import run_record_to_json
from tasks.store.mirror import name_store
from tasks.store.store import Mirror, Store, check_writable, open_store
from tests.wording.sentences import Wording


@pytest.fixture
def machine(gcs_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """machine(name): the store as another machine opens it, with a separate working copy."""

    def open_on(name: str) -> Store:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return open_store(gcs_url)

    return open_on


def finish(store: Store, name: str) -> Mirror:
    """A run's folder as a trainer leaves it, uploaded."""
    folder = store.run(name).create()
    folder.log.write_text("a log\n")
    step = folder.checkpoints / "0"
    (step / "items").mkdir(parents=True)
    (step / "items" / "data").write_bytes(b"weights")
    (step / "commit_success.txt").write_text("x")
    folder.record.write_text("{}")
    store.push(folder.path)
    assert isinstance(store.place, Mirror)
    return store.place


def test_reading_a_bucket_creates_no_working_copy(
    gcs_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    assert check_writable(gcs_url) == (gcs_url, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_finished_run_is_visible_to_another_machine(machine) -> None:  # type: ignore[no-untyped-def]
    mirror = finish(machine("one"), "run-1")
    names = [entry.name for entry in mirror.files.entries("runs")]
    assert names == [f"runs/run-1/{name}" for name in (
        "checkpoints/0/commit_success.txt", "checkpoints/0/items/data", "log.txt", "record.json")]  # fmt: skip
    other = machine("two")
    assert [run.run_name for run in other.runs()] == ["run-1"]
    other.place.fetch_folder("runs/run-1")
    assert other.run("run-1").log.read_text() == "a log\n"
    assert not other.run("run-1").checkpoints.exists()
    assert name_store(other.path) == mirror.files.root


def test_completion_markers_are_uploaded_last(machine, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    sent: list[str] = []
    upload = GcsFiles.upload

    def record(self: GcsFiles, name: str, path: Path) -> str:
        sent.append(name.rpartition("/")[2])
        return upload(self, name, path)

    monkeypatch.setattr(GcsFiles, "upload", record)
    mirror = finish(machine("one"), "run-1")
    assert sent == [
        "data",
        "commit_success.txt",
        "log.txt",
        "record.json",
    ]  # a complete log: all files that it mentions are there
    assert mirror.push_folder("runs/run-1") == 0  # no file is uploaded twice
    (mirror.folder / "runs/run-1/log.txt").write_text("a LOG\n")
    assert mirror.push_folder("runs/run-1") == 1


def test_two_machines_cannot_write_one_run(machine) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one").place, machine("two").place
    first.claim("runs/run-1")
    first.claim("runs/run-1")  # its own claim, after a crash
    with pytest.raises(StoreError, match=r"runs/run-1: .*--fresh.*--take-over"):
        second.claim("runs/run-1")
    second.claim("runs/run-2")
    first.claims.give_back("runs/run-1")
    second.claim("runs/run-1")
    with pytest.raises(StoreError, match="taken over"):
        first.claims.check("runs/run-1")
    claim = json.loads(second.files.read("runs/run-1/writer.json"))
    assert set(claim) == {"host", "pid", "folder", "since", "replaces", "flow_runs"}  # no secret, no environment


def test_a_claim_is_valid_until_its_flow_run_has_ended(machine) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one").place, machine("two").place
    first.claim("runs/run-1", ("lost", "night"))
    with pytest.raises(TakenError) as taken:
        second.claim("runs/run-1", ("next",), is_over=lambda others: "else" in others)
    assert taken.value.claim.flow_runs == ("lost", "night")
    second.claim("runs/run-1", ("next",), is_over=lambda others: "lost" in others)
    second.claims.check("runs/run-1")
    with pytest.raises(StoreError, match="taken over"):
        first.claims.check("runs/run-1")
    with pytest.raises(TakenError):  # the run continues meanwhile
        first.claim("runs/run-1", ("lost",), is_over=lambda others: "lost" in others)


def test_a_damaged_claim_is_reported(machine) -> None:  # type: ignore[no-untyped-def]
    mirror = machine("one").place
    mirror.files.write("runs/run-1/writer.json", b'{"host": 1')
    with pytest.raises(StoreError, match=r"writer\.json: .*gcloud storage rm gs://"):
        mirror.claim("runs/run-1")


def test_another_machine_continues_from_the_uploaded_files(machine, make_plan) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one").run("run-1").create(), machine("two").run("run-1").create()
    handle = ClusterHandle(
        backend="xpk", job_name="a-2", family="a", namespace="default", context=None, created=1.0, log="elsewhere"
    )
    first.claim(("lost",))
    (first.path / "log.1.txt").write_text("the attempt before\n")
    first.log.write_text("still growing")
    first.write_plan(make_plan("pass", run_name="run-1"))
    first.write_handle(handle)
    assert read_handle(second) == handle  # so that another machine can end the job
    second.claim(("next",), is_over=lambda others: others == ("lost",))
    assert (second.path / "log.1.txt").read_text() == "the attempt before\n"
    assert second.read_plan() == first.read_plan()
    assert not second.log.exists()
    with pytest.raises(StoreError, match="taken over"):  # so no job of it is started there again
        first.write_handle(handle)
    later = handle.replace(job_name="a-3")
    second.write_handle(later)
    assert read_handle(first) == later


@pytest.fixture
def record_of():  # type: ignore[no-untyped-def]
    """record_of(store, label): a small record of the run `run-1`."""

    def make(store: Store, label: str) -> RunRecord:
        reading = RunReading(name="run-1", format="maxview")
        return RunRecord(
            plan=None, arm="a", label=label, commit=None, log=store.run("run-1").log_address, reading=reading
        )

    return make


def test_a_record_replaces_only_the_known_version(machine, record_of, wording: Wording) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one"), machine("two")
    run = first.run("run-1").create()
    run.log.write_text("a log\n")
    first.place.claim("runs/run-1")
    run.write_record(record_of(first, "died"))
    assert [e.name for e in first.place.files.entries("runs")] == ["runs/run-1/log.txt", "runs/run-1/record.json"]
    other = second.run("run-1").create()
    assert other.read_record().label == "died"
    assert other.bring("log.txt").read_text() == "a log\n"
    assert other.log_address == other.read_record().log == f"{second.address}/runs/run-1/log.txt"
    second.place.claim("runs/run-1")  # the run is repeated there
    other.log.write_text("a longer log\n")
    late = second.place.files.read("runs/run-1/writer.json")
    first.place.files.delete("runs/run-1/writer.json")  # by a user who believes that machine lost
    first.place.claim("runs/run-1")
    run.write_record(record_of(first, "again"))
    second.place.files.write("runs/run-1/writer.json", late, create=True)
    with pytest.raises(StoreError, match="another machine") as error:
        other.write_record(record_of(second, "late"))
    wording("errors", error.value, STORE=second.address)
    assert other.read_record().label == "again"  # the late record is neither here nor there


def test_a_run_recorded_meanwhile_is_not_started(machine, record_of, wording: Wording) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one"), machine("two")
    assert second.run("run-1").read_record() is None
    first.run("run-1").create().write_record(record_of(first, "done"))
    with pytest.raises(StoreError, match="another machine") as error:
        second.place.claim("runs/run-1")
    wording("errors", error.value, STORE=second.address)
    assert second.place.files.stat("runs/run-1/writer.json") is None
    second.run("run-1").read_record()
    second.place.claim("runs/run-1")


def test_a_record_removed_in_the_bucket_is_removed_everywhere(machine, record_of) -> None:  # type: ignore[no-untyped-def]
    store = machine("one")
    store.run("run-1").create().write_record(record_of(store, "done"))
    store.files.delete("runs/run-1/record.json")
    assert store.run("run-1").read_record() is None


def test_many_records_are_downloaded_in_parallel(machine, record_of) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one"), machine("two")
    text = run_record_to_json(record_of(first, "done")).encode()
    for number in range(25):
        first.files.write(f"runs/run-{number}/record.json", text)
    second.refresh("runs")
    assert [run.read_record(listed=True).label for run in second.runs()] == ["done"] * 25


def test_a_page_has_an_address_and_a_link(machine, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = machine("one")
    page = store.comparison("linen-vs-nnx", "01_base", "a+b").page
    assert store.address_of(page) == f"{store.address}/comparisons/linen-vs-nnx/01_base/a+b/index.html"
    assert store.link_to(page) == (
        "https://storage.cloud.google.com/" + store.address[5:] + "/comparisons/linen-vs-nnx/01_base/a%2Bb/index.html"
    )
    local = open_store(tmp_path / "out")
    assert (
        local.link_to(local.comparison("c", "d", "e").page) == (tmp_path / "out/comparisons/c/d/e/index.html").as_uri()
    )


def test_a_file_replaced_during_its_download_is_complete(machine, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tasks.store.gcs.CHUNK", 1 << 10)
    mirror = machine("one").place
    mirror.files.write("runs/a/log.txt", b"a" * 5000)
    opened = GcsFiles.open
    later = [b"c" * 5000, b"b" * 5000]

    def open_and_replace(self: GcsFiles, name: str):  # type: ignore[no-untyped-def]
        stream = opened(self, name)
        if later:
            stream.peek(1)
            self.write(name, later.pop())
        return stream

    monkeypatch.setattr(GcsFiles, "open", open_and_replace)
    assert mirror.fetch("runs/a/log.txt")
    assert (mirror.folder / "runs/a/log.txt").read_bytes() == b"c" * 5000
    assert not mirror.fetch("runs/a/none.txt")
    assert [path.name for path in (mirror.folder / "runs/a").iterdir()] == ["log.txt"]


QUESTION = re.compile(r"\.mirror\b(?! import)|\bMirror\b|(store|directory)\.place (is|==|!=) |isinstance\([^)]*\.place")


def test_no_other_code_asks_whether_a_store_is_a_bucket() -> None:
    root = CONFIG_ROOT.parent
    asked = {
        f"{path.relative_to(root)}: {line.strip()}"
        for folder in ("flows", "tasks")
        for path in (root / folder).rglob("*.py")
        if not path.is_relative_to(root / "tasks" / "store")
        for line in path.read_text(encoding="utf-8").splitlines()
        if QUESTION.search(line)
    }
    assert not asked
