"""One interface, two stores: the properties of files hold in a folder and in a bucket."""

import threading
from pathlib import Path

import google_crc32c
import pytest

from tasks.store.atomic import StoreError
from tasks.store.files import AlreadyThereError, Files
from tasks.store.gcs import GcsFiles
from tests.wording.sentences import Wording


def version_of(files: Files, name: str) -> str:
    found = files.stat(name)
    assert found is not None
    return found.version


def test_written_files_are_read_and_listed(files: Files) -> None:
    assert list(files.entries()) == []
    files.write("runs/a/record.json", b"one")
    version = version_of(files, "runs/a/record.json")
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
    assert [entry.name for entry in files.entries("run")] == []  # a folder, not a prefix of names


def test_a_pattern_stays_within_a_folder(files: Files) -> None:
    for name in ("runs/a/record.json", "runs/a/manifests/record.json", "runs/b/log.txt", "runs/b/record.json"):
        files.write(name, b"x")
    names = [entry.name for entry in files.entries("runs", "runs/*/record.json")]
    assert names == ["runs/a/record.json", "runs/b/record.json"]


def test_a_missing_file_is_not_an_error_of_the_store(files: Files) -> None:
    for read in (files.read, files.open):
        with pytest.raises(FileNotFoundError, match="none"):
            read("none")
    assert files.stat("none") is None
    assert files.read_many(["none"]) == {}
    assert not files.delete("none", version="1")


def test_one_of_several_creators_succeeds(files: Files) -> None:
    outcomes: list[str] = []

    def create(text: bytes) -> None:
        try:
            files.write("claim", text, create=True)
            outcomes.append("written")
        except AlreadyThereError as error:
            outcomes.append("refused" if "another process" in str(error) else str(error))

    threads = [threading.Thread(target=create, args=(f"writer {n}".encode(),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 7 + ["written"]
    assert files.read("claim").startswith(b"writer ")


def test_a_file_changes_only_from_the_version_that_was_read(files: Files) -> None:
    files.write("a", b"1")
    first = version_of(files, "a")
    files.write("a", b"22", version=first)
    second = version_of(files, "a")
    with pytest.raises(AlreadyThereError):
        files.write("a", b"333", version=first)
    assert files.read("a") == b"22"
    assert not files.delete("a", version=first)
    assert files.read("a") == b"22"
    assert files.delete("a", version=second)
    assert files.stat("a") is None


def test_large_files_are_uploaded_completely(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(bytes(range(256)) * 40_000)  # 10 MB: a resumable upload in chunks
    files.upload("large", path)
    assert files.read("large") == path.read_bytes()
    with files.open("large") as stream:
        stream.seek(9_999_990)
        assert stream.read(4) == path.read_bytes()[9_999_990:9_999_994]


def test_many_files_are_read_in_parallel(files: Files) -> None:
    names = [f"f/{n:03}" for n in range(40)]
    for name in names:
        files.write(name, name.encode())
    assert files.read_many(names) == {name: name.encode() for name in names}
    assert [entry.name for entry in files.entries("f")] == names


@pytest.mark.parametrize("name", ["", "../x", "a//b", "/etc/passwd", "a/../../b", "a/."])
def test_a_name_cannot_lead_outside(files: Files, name: str) -> None:
    with pytest.raises(StoreError, match="not the name of a file"):
        files.write(name, b"x")


def test_a_bucket_has_checksums(gcs_url: str) -> None:
    files = GcsFiles(gcs_url)
    files.write("a", b"some content")
    (entry,) = files.entries()
    assert entry.crc32c == f"{google_crc32c.value(b'some content'):08x}"


def test_creating_the_same_content_twice_counts_as_a_lost_response(gcs_url: str) -> None:
    files = GcsFiles(gcs_url)
    files.write("a", b"same", create=True)
    before = version_of(files, "a")
    files.write("a", b"same", create=True)
    assert version_of(files, "a") == before


def test_an_invalid_bucket_is_named(gcs_url: str, wording: Wording) -> None:
    files = GcsFiles("gs://other-bucket/x")
    for work in (files.check_access, lambda: list(files.entries()), lambda: files.write("a", b"b")):
        with pytest.raises(StoreError, match=r"gs://other-bucket: .*gcloud storage buckets create gs") as error:
            work()
        wording("errors", error.value)


NO_PLACES = """gs:// gs:///x gs://Bucket/x gs://bucket/../x gs://bucket/a//b gs://bucket/a* gs://bucket/a?b s3://b/x"""


@pytest.mark.parametrize("place", [*NO_PLACES.split(), "gs://a b", "gs://bucket/x\n"])
def test_an_invalid_address_of_a_store_is_refused(place: str) -> None:
    with pytest.raises(StoreError, match="give gs://bucket"):
        GcsFiles(place)


@pytest.mark.parametrize("prefix", ["", "a", "a/b c", "ü/%20/&x='y'", "-rf", "$(id)"])
def test_prefixes_are_names_and_not_folders(prefix: str, gcs_url: str) -> None:
    files = GcsFiles(f"{gcs_url}/{prefix}")
    files.write("x/name.txt", b"content")
    version = version_of(files, "x/name.txt")
    assert [(e.name, e.version) for e in files.entries()] == [("x/name.txt", version)]
    assert [e.name for e in files.entries("x", "x/*.txt")] == ["x/name.txt"]
    assert files.read("x/name.txt") == b"content"
    assert files.url("x/name.txt") == f"{gcs_url}/{prefix}/x/name.txt".replace("//x", "/x")


def test_a_missing_permission_is_reported_with_the_remedy(gcs_url: str, wording: Wording) -> None:
    with pytest.raises(
        StoreError, match=r"objects.create, storage.objects.delete\); .*add-iam-policy-binding gs://viewer"
    ):
        GcsFiles("gs://viewer/x").check_access()
    GcsFiles(gcs_url).check_access()
    assert list(GcsFiles("gs://viewer").entries()) == []
    with pytest.raises(StoreError, match=r"gs://viewer/a: .*roles/storage.objectUser") as error:
        GcsFiles("gs://viewer").write("a", b"b")
    wording("errors", error.value)
    with pytest.raises(StoreError, match=r"gs://blind/a: you may not do this"):
        GcsFiles("gs://blind").read("a")


def test_without_credentials_the_error_says_how_to_log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # otherwise the client queries a metadata server
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    with pytest.raises(StoreError, match="gcloud auth application-default login"):
        GcsFiles("gs://bucket/x").check_access()


def test_one_object_is_read_as_a_stream(gcs_url: str) -> None:
    files = GcsFiles(f"{gcs_url}/logs")
    files.write("log.txt", b"completed step: 0\n" * 1000)
    with files.open("log.txt") as stream:
        assert sum(1 for _ in stream) == 1000
    with pytest.raises(FileNotFoundError):
        files.open("none.txt")
    assert files.head("log.txt", 9) == b"completed"
    files.write("empty.txt", b"")
    assert files.head("empty.txt", 9) == b""


def test_a_stream_has_one_version(gcs_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.store.gcs.CHUNK", 1 << 10)
    files = GcsFiles(gcs_url)
    files.write("log.txt", b"a" * 3000)
    with files.open("log.txt") as stream:
        assert stream.read(10) == b"a" * 10
        files.write("log.txt", b"b" * 3000)
        with pytest.raises(FileNotFoundError):  # the bucket keeps no old versions
            stream.read()
