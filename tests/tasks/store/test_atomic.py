"""A file of the store is the old one or the complete new one, never a part of either."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from tasks.publish.page.replace_text import replace_text
from tasks.store.atomic import StoreError, write_atomically
from tasks.store.directories import RunDirectory


def test_text_arrives_byte_for_byte(tmp_path):
    text = "a\r\nb\n\x00 é × – 漢\U0001f600"
    path = write_atomically(tmp_path / "new" / "folder" / "f.txt", text)
    assert path.read_bytes() == text.encode()
    write_atomically(path, "")
    assert path.read_bytes() == b""
    assert os.listdir(path.parent) == ["f.txt"]


def test_the_file_has_the_rights_of_any_other_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_atomically(tmp_path / "ours", "")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


@pytest.mark.parametrize("text", ["\ud800", "ok \udcff"])
def test_invalid_text_is_refused_and_leaves_the_old_file(tmp_path, text):
    path = write_atomically(tmp_path / "f", "old")
    with pytest.raises(StoreError, match="invalid Unicode"):
        write_atomically(path, text)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path, monkeypatch, step):
    path = write_atomically(tmp_path / "f", "old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(StoreError, match="Input/output error") as caught:
        write_atomically(path, "new")
    assert str(path) in str(caught.value)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_an_impossible_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "below" / "f", "/proc/nowhere/f"):
        with pytest.raises(StoreError) as caught:
            write_atomically(path, "x")
        assert str(path) in str(caught.value)
        assert "--" not in str(caught.value)  # every command writes with it, and some have no --out


def test_readers_never_see_a_part_of_a_file(tmp_path):
    path = tmp_path / "f"
    texts = {"a" * 300_000, "b" * 700_000}
    write_atomically(path, "a" * 300_000)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for text in texts:
                write_atomically(path, text)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {path.read_text() for _ in range(200)}
    finally:
        stop.set()
        writer.join()
    assert seen <= texts


def test_kill_9_during_writing_leaves_a_complete_file(tmp_path):
    path = tmp_path / "record.json"
    texts = ["a" * 3_000_000, "b" * 5_000_000]
    program = (
        "import sys; from tasks.store.atomic import write_atomically\n"
        "while True:\n"
        "    for letter, n in (('a', 3_000_000), ('b', 5_000_000)):\n"
        "        write_atomically(sys.argv[1], letter * n)\n"
    )
    for pause in (0.01, 0.05, 0.11, 0.23):
        child = subprocess.Popen([sys.executable, "-c", program, str(path)])
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(pause)
        child.send_signal(signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        assert path.read_text() in texts
        # a killed writer's leftovers are hidden and ignored
        assert all(
            name.startswith(".record.json.") and name.endswith(".tmp")
            for name in os.listdir(tmp_path)
            if name != path.name
        )


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 KiB."""
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "x", tmp_path], check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def test_a_full_disk_is_named_by_every_writer_and_for_an_empty_log(small_disk):
    named = f"^No space left on device: the disk at {small_disk} has 0.00 of 0.00 GB free; make room there and repeat"
    run = RunDirectory(small_disk / "run").create()
    run.log.touch()
    run.check_files()  # empty, but with free space
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(4096))
    with pytest.raises(StoreError, match=named):
        run.check_files()
    with pytest.raises(StoreError, match=named):
        replace_text(small_disk / "index.html", "x" * 10_000)
    with pytest.raises(StoreError, match=named):
        write_atomically(small_disk / "record.json", "x" * 10_000)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_instead_of_the_last_file(number, tmp_path, monkeypatch):
    def full(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError) as error:
        write_atomically(tmp_path / "folder" / "record.json", "{}")
    disk = next(folder for folder in tmp_path.parents if os.path.ismount(folder))
    assert str(error.value).startswith(f"{os.strerror(number)}: the disk at {disk} has ")
    assert "record.json" not in str(error.value)
