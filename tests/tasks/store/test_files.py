"""One interface, two stores: what is promised of files holds in a folder and in a bucket."""

import threading
from pathlib import Path

import google_crc32c
import pytest

from tasks.store import StoreError
from tasks.store.files import AlreadyThereError, Files
from tasks.store.gcs import GcsFiles, open_object


def test_what_is_written_is_read_and_listed(files: Files) -> None:
    assert list(files.entries()) == []
    version = files.write("runs/a/record.json", b"one")
    files.write("runs/b/record.json", b"")
    files.write("other.txt", b"x")
    assert files.read("runs/a/record.json") == b"one"
    with files.open("runs/a/record.json") as stream:
        assert stream.read(2) == b"on"
        assert stream.read() == b"e"
    found = files.stat("runs/a/record.json")
    assert found is not None
    assert (found.name, found.size, found.version) == ("runs/a/record.json", 3, version)
    assert [entry.name for entry in files.entries()] == ["other.txt", "runs/a/record.json", "runs/b/record.json"]
    assert next(iter(files.entries("runs"))) == found
    assert [entry.name for entry in files.entries("run")] == []  # a folder, not the beginning of a name


def test_a_pattern_stays_within_a_folder(files: Files) -> None:
    for name in ("runs/a/record.json", "runs/a/manifests/record.json", "runs/b/log.txt", "runs/b/record.json"):
        files.write(name, b"x")
    names = [entry.name for entry in files.entries("runs", "runs/*/record.json")]
    assert names == ["runs/a/record.json", "runs/b/record.json"]


def test_what_is_not_there_is_no_error_of_the_store(files: Files) -> None:
    for read in (files.read, files.open):
        with pytest.raises(FileNotFoundError, match="none"):
            read("none")
    assert files.stat("none") is None
    assert files.read_many(["none"]) == {}
    assert not files.delete("none", version="1")


def test_of_several_creators_one_succeeds(files: Files) -> None:
    outcomes: list[str] = []

    def create(text: bytes) -> None:
        try:
            files.write("claim", text, create=True)
            outcomes.append("written")
        except AlreadyThereError as error:
            outcomes.append("refused" if "somebody else" in str(error) else str(error))

    threads = [threading.Thread(target=create, args=(f"writer {n}".encode(),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["written"]
    assert files.read("claim").startswith(b"writer ")


def test_a_file_changes_only_from_the_version_that_was_read(files: Files) -> None:
    first = files.write("a", b"1")
    second = files.write("a", b"22", version=first)
    with pytest.raises(AlreadyThereError):
        files.write("a", b"333", version=first)
    assert files.read("a") == b"22"
    assert not files.delete("a", version=first)
    assert files.read("a") == b"22"
    assert files.delete("a", version=second)
    assert files.stat("a") is None


def test_large_files_go_up_whole(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 40_000)  # 10 MB: a resumable upload in chunks
    files.upload("large", path)
    assert files.read("large") == path.read_bytes()
    with files.open("large") as stream:
        stream.seek(9_999_990)
        assert stream.read(4) == path.read_bytes()[9_999_990:9_999_994]


def test_many_files_are_read_side_by_side(files: Files) -> None:
    names = [f"f/{n:03}" for n in range(40)]
    for name in names:
        files.write(name, name.encode())
    assert files.read_many(names) == {name: name.encode() for name in names}
    assert [entry.name for entry in files.entries("f")] == names


@pytest.mark.parametrize("name", ["", "../x", "a//b", "/etc/passwd", "a/../../b", "a/."])
def test_no_name_leads_outside(files: Files, name: str) -> None:
    with pytest.raises(StoreError, match="no name of a file"):
        files.write(name, b"x")


def test_a_bucket_knows_checksums(gcs_url: str) -> None:
    files = GcsFiles(gcs_url)
    files.write("a", b"some content")
    (entry,) = files.entries()
    assert entry.crc32c == f"{google_crc32c.value(b'some content'):08x}"


def test_the_same_content_created_twice_is_a_lost_answer(gcs_url: str) -> None:
    files = GcsFiles(gcs_url)
    assert files.write("a", b"same", create=True) == files.write("a", b"same", create=True)


def test_a_bucket_that_is_none_is_named(gcs_url: str) -> None:
    with pytest.raises(StoreError, match=r"gs://other-bucket: there is no such bucket"):
        list(GcsFiles("gs://other-bucket/x").entries())
    with pytest.raises(StoreError, match="is no bucket"):
        GcsFiles("gs://")


def test_one_object_is_read_as_a_stream(gcs_url: str) -> None:
    GcsFiles(gcs_url).write("logs/log.txt", b"completed step: 0\n" * 1000)
    with open_object(f"{gcs_url}/logs/log.txt") as stream:
        assert sum(1 for _ in stream) == 1000
    with pytest.raises(FileNotFoundError):
        open_object(f"{gcs_url}/logs/none.txt")
