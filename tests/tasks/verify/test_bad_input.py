"""What is no checkpoint gets one clear message."""

import os
import subprocess
import sys

import pytest

from tasks.verify.checkpoint import verify_checkpoint, verify_checkpoints
from tasks.verify.layout import CheckpointError


@pytest.mark.parametrize("verify", [verify_checkpoint, verify_checkpoints])
def test_what_is_no_checkpoint_is_said_once_and_clearly(tmp_path, verify):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no checkpoint")
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / "photos" / "2024" / "a.jpg").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to("/dev/zero")
    cases = {
        "pipe": "is a pipe or a device",
        "link": "is a pipe or a device",
        "run": "is a pipe or a device",
        "nowhere": "does not exist",
        "empty": "is an empty folder",
        "file": "is a file",
        "file/below": "does not exist",
        "photos": "holds no Orbax checkpoint",
        "photos/2024": "holds no Orbax checkpoint",
    }
    for name, message in cases.items():
        with pytest.raises(CheckpointError) as caught:
            verify(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert message in str(caught.value)
        assert "give" in str(caught.value)  # the remedy


def test_one_checkpoint_is_asked_for(save):
    with pytest.raises(CheckpointError, match=r"holds 2 checkpoints \(0, 9\); give one"):
        verify_checkpoint(save())


def test_a_folder_that_loops_into_itself_ends(step_folder):
    (step_folder / "items" / "loop").symlink_to(step_folder / "items")
    assert not verify_checkpoint(step_folder, mode="none").problems


def test_a_cloud_store_without_its_client_is_said_so():
    """In a process of its own: what has been imported once stays known."""
    program = """
import sys
sys.modules["gcsfs"] = None  # as if it were not installed
from tasks.verify.checkpoint import verify_checkpoint
from tasks.verify.layout import CheckpointError
try:
    verify_checkpoint("gs://bucket/run/9")
except CheckpointError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "gcsfs" in done.stdout
