"""The history of a read-only store is shown as usual, and nothing is requested, created or changed there."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.cli.app import call_command
from questions.history.history_table import append_comparison
from questions.history.page import write_history_page
from tasks.records.compared_case import ComparisonRecord
from tasks.store.atomic import StoreError
from tasks.store.store import Store, open_store
from tests.wording.sentences import Wording, line_with

SERVER = Path(__file__).parents[2] / "standins" / "gcs.py"

type Night = Callable[..., ComparisonRecord]


@pytest.fixture
def viewer(
    store: Store, night: Night, tmp_path: Path, gcs_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A read-only bucket with a night's history and a page."""
    record = night(1)
    append_comparison(record, store)
    page = store.comparison(record.comparison, record.case, record.id).page
    page.parent.mkdir(parents=True)
    page.write_text("a page")
    words = [sys.executable, str(SERVER), f"viewer:get,list={store.path}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            servers = {"STORAGE_EMULATOR_HOST": address, "TENSORSTORE_GCS_HTTP_URL": address}
            for name, value in (gcs_environment | servers | {"XDG_CACHE_HOME": str(tmp_path / "cache")}).items():
                monkeypatch.setenv(name, value)
            yield "gs://viewer"
        finally:
            server.terminate()


def test_a_bucket_without_the_right_to_write(
    viewer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, wording: Wording
) -> None:
    with pytest.raises(StoreError, match=r"storage\.objects\.create"):
        open_store(viewer)
    before = [(entry.name, entry.version) for entry in open_store(viewer, reading=True).files.entries()]
    assert call_command(["history", "--metric", "step_time_s", "--out", viewer]) == 0
    shown = capsys.readouterr()
    assert "Step time" in shown.out
    assert "gs://viewer: " in shown.err
    wording("errors", shown.err)
    (page,) = (tmp_path / "cache").rglob("history.html")
    assert f"page: {page}" in shown.out
    assert "link:" not in shown.out  # there is no such object
    # files in other folders are linked by their address
    assert "https://storage.cloud.google.com/viewer/comparisons/linen-vs-nnx/01_base/" in page.read_text()
    assert [(entry.name, entry.version) for entry in open_store(viewer, reading=True).files.entries()] == before


def test_rebuilding_needs_the_right_to_write(viewer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_command(["history", "--rebuild", "--out", viewer]) == 2
    reported = " ".join(capsys.readouterr().err.split())
    assert "storage.objects.create, storage.objects.delete" in reported
    assert "--role=roles/storage.objectUser" in reported


def test_a_bucket_without_the_right_to_read(gcs_url: str) -> None:
    with pytest.raises(StoreError, match=r"objects\.get, storage\.objects\.list\); .*roles/storage\.objectViewer"):
        open_store("gs://blind", reading=True)
    assert open_store(gcs_url, reading=True).writable
    assert not open_store("gs://viewer", reading=True).writable


def test_a_missing_folder_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in (tmp_path / "none", tmp_path / "file", tmp_path / "file" / "out"):
        (tmp_path / "file").write_text("not a folder")
        assert call_command(["history", "--out", str(out)]) == 2
        reported = " ".join(capsys.readouterr().err.split())
        assert str(out) in reported.replace(" ", "")
        assert reported.endswith("--out")
    assert os.listdir(tmp_path) == ["file"]


def test_a_read_only_folder(
    store: Store,
    night: Night,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
) -> None:
    append_comparison(night(1), store)
    before = sorted(store.path.rglob("*"))
    # root may write everywhere except on a read-only mount: the kernel's answer there is all that the test needs
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert call_command(["history", "--metric", "step_time_s", "--out", str(store.path)]) == 0
    shown = capsys.readouterr()
    assert "Step time" in shown.out
    assert "page:" not in shown.out
    wording("errors", line_with(shown.err, f"{store.path}: "))
    assert sorted(store.path.rglob("*")) == before
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StoreError, match=r"chmod a\+rX") as error:
        open_store(store.path, reading=True)
    wording("errors", error.value)


def test_a_read_only_disk() -> None:
    folder = next((Path(p) for p in ("/sys/kernel", "/proc/self") if not os.access(p, os.W_OK)), None)
    if folder is None:
        pytest.skip("every file system of this machine can be written")
    opened = open_store(folder, reading=True)
    assert not opened.writable
    assert write_history_page([], opened) is None
