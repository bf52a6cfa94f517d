"""A store in a bucket: worked on in a folder, finished runs go up whole, and no two machines write one run."""

import json
from pathlib import Path

import pytest

from tasks.store import Store, StoreError, open_store
from tasks.store.folder import Mirror
from tasks.store.gcs import GcsFiles
from tasks.store.mirror import name_store


@pytest.fixture
def machine(gcs_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """machine(name): the store as another machine opens it, with a working copy of its own."""

    def open_on(name: str) -> Store:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return open_store(gcs_url)

    return open_on


def finish(store: Store, name: str) -> Mirror:
    """A run's folder as a trainer leaves it, sent up."""
    assert store.mirror is not None
    folder = store.run(name).create()
    folder.log.write_text("a log\n")
    step = folder.checkpoints / "0"
    (step / "items").mkdir(parents=True)
    (step / "items" / "data").write_bytes(b"weights")
    (step / "commit_success.txt").write_text("x")
    folder.record.write_text("{}")
    store.push(folder.path)
    return store.mirror


def test_a_finished_run_is_seen_from_another_machine(machine) -> None:  # type: ignore[no-untyped-def]
    mirror = finish(machine("one"), "run-1")
    names = [entry.name for entry in mirror.files.entries("runs")]
    assert names == [f"runs/run-1/{name}" for name in (
        "checkpoints/0/commit_success.txt", "checkpoints/0/items/data", "log.txt", "record.json")]  # fmt: skip
    other = machine("two")
    assert [run.run_name for run in other.runs()] == ["run-1"]
    assert other.mirror is not None
    other.mirror.fetch_folder("runs/run-1")
    assert other.run("run-1").log.read_text() == "a log\n"
    assert not other.run("run-1").checkpoints.exists()
    assert name_store(other.path) == mirror.files.root


def test_what_marks_the_whole_goes_up_last(machine, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    sent: list[str] = []
    upload = GcsFiles.upload

    def record(self: GcsFiles, name: str, path: Path) -> str:
        sent.append(name.rpartition("/")[2])
        return upload(self, name, path)

    monkeypatch.setattr(GcsFiles, "upload", record)
    mirror = finish(machine("one"), "run-1")
    assert sent == ["data", "log.txt", "commit_success.txt", "record.json"]
    assert mirror.push_folder("runs/run-1") == 0  # nothing is sent twice
    (mirror.folder / "runs/run-1/log.txt").write_text("a LOG\n")
    assert mirror.push_folder("runs/run-1") == 1


def test_two_machines_cannot_write_one_run(machine, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    first, second = machine("one").mirror, machine("two").mirror
    first.claim("runs/run-1")
    first.claim("runs/run-1")  # its own, after a crash
    with pytest.raises(StoreError, match=r"runs/run-1: is being written on .* since .*--fresh.*writer\.json"):
        second.claim("runs/run-1")
    second.claim("runs/run-2")
    first.give_back("runs/run-1")
    second.claim("runs/run-1")
    with pytest.raises(StoreError, match="taken over"):
        first.check_claim("runs/run-1")
    claim = json.loads(second.files.read("runs/run-1/writer.json"))
    assert set(claim) == {"host", "pid", "folder", "since"}  # no secret, no environment
