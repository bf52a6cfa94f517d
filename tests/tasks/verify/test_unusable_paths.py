"""A path without a checkpoint gets one clear message."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.cli.app import call_command
from tasks.verify.layout import CheckpointError
from tasks.verify.verification import verify_checkpoint, verify_checkpoints, verify_saved


@pytest.mark.parametrize("verify", [verify_checkpoint, lambda path: list(verify_checkpoints(path))], ids=["one", "all"])
def test_a_path_without_checkpoint_is_reported_once_and_clearly(tmp_path, verify):
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


def test_a_single_checkpoint_is_required(save):
    with pytest.raises(CheckpointError, match=r"holds 2 checkpoints \(0, 9\); give one"):
        verify_checkpoint(save())


def test_a_folder_that_loops_into_itself_ends(step_folder):
    (step_folder / "items" / "loop").symlink_to(step_folder / "items")
    assert not verify_checkpoint(step_folder, mode="none").problems


def test_a_missing_client_of_a_cloud_store_is_reported():
    """The test runs in a separate process, because an imported module stays imported."""
    program = """
import sys
sys.modules["gcsfs"] = None  # as if it were not installed
from tasks.verify.verification import verify_checkpoint
from tasks.verify.layout import CheckpointError
try:
    verify_checkpoint("gs://bucket/run/9")
except CheckpointError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "gcsfs" in done.stdout


@contextmanager
def weak():
    """Run the block as a user without all read permissions, also if root runs the tests."""
    user = os.getuid()
    os.setresuid(*2 * (user or 65534,), user)
    try:
        yield
    finally:
        os.setresuid(user, user, user)


def test_unreadable_files_are_reported_and_the_rest_is_verified(run_folder, capsys):
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        run = Path(shutil.copytree(run_folder, Path(name, "run")))
        first, last = (run / "checkpoints" / step for step in ("0", "9"))
        assert (
            call_command(["verify", str(last), "--against", str(last)]) == 0
        )  # loads modules that the weaker user cannot read
        for folder, *_ in os.walk(name):
            os.chmod(folder, 0o755)
        first.chmod(0)
        with weak():
            denied, whole = verify_checkpoints(run)
            capsys.readouterr()
            assert call_command(["verify", str(last), "--against", str(first)]) == 2
            assert f"{first}: cannot be read" in capsys.readouterr().err
            assert call_command(["verify", str(run)]) == 2
        assert (denied.ok, whole.ok) == (False, True)
        assert "cannot be read" in denied.problems[0].message
        first.chmod(0o755)
        for file in (last / "items" / "_METADATA", next((last / "items" / "d").iterdir())):
            file.chmod(0)
            capsys.readouterr()
            with weak():
                assert call_command(["verify", str(last), "--record"]) == 2
            assert f"Permission denied: '{file}'" in "".join(capsys.readouterr())
            file.chmod(0o644)
        assert not (run / "manifests").exists()


@pytest.mark.parametrize("there", ["9", "9.orbax-checkpoint-tmp"])
def test_a_missing_step_is_reported_with_the_existing_steps(run_folder, there):
    steps = run_folder / "checkpoints"
    (steps / "9").rename(steps / there)
    with pytest.raises(CheckpointError, match="give one of 0") as caught:
        verify_checkpoint(steps / "77")
    assert ("9" in str(caught.value).partition("give")[2]) == (there == "9")
    if there != "9":
        with pytest.raises(CheckpointError, match=r"was never finished: 9\.orbax-checkpoint-tmp"):
            verify_checkpoint(steps / "9")


def test_a_missing_announced_save_is_a_failed_proof(tmp_path):
    """A save announced in a run's log is judged; only a path typed by a user is an error of input."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no checkpoint")
    for name, message in {"9": "does not exist", "file": "is a file", "empty": "is an empty folder"}.items():
        proof = verify_saved(tmp_path / name, manifest=tmp_path / "manifests" / f"{name}.json")
        assert (proof.ok, proof.retired, [problem.check for problem in proof.problems]) == (False, False, ["commit"])
        assert proof.problems[0].message.startswith(message)
        assert proof.problems[0].message.endswith(", though the run announced this save")
        assert str(tmp_path) not in proof.problems[0].message
    assert not (tmp_path / "manifests").exists()
