"""An unfinished save is never taken for a checkpoint, and a finished one is recognised at once."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from etils import epath

from flows.cli.app import call_command
from tasks.verify.commit_marks import check_commit
from tasks.verify.layout import CheckpointError, Item, find_steps
from tasks.verify.verification import verify_checkpoint, verify_checkpoints

pytestmark = pytest.mark.long

SAVER = Path(__file__).with_name("saver.py")


@pytest.mark.parametrize("point", ["while-writing", "before-item-commit", "before-step-commit"])
def test_a_killed_save_leaves_no_checkpoint(save, point):
    run = save("--die-at", point, "--size", "2048", returncode=-9)
    left = run / "checkpoints" / "9.orbax-checkpoint-tmp"
    assert left.is_dir()
    assert [found.step for found in find_steps(run)] == [0]
    assert [(proof.step, proof.ok) for proof in verify_checkpoints(run, deep=True)] == [(0, True), (9, False)]
    assert call_command(["verify", str(run)]) == 1  # the run has lost a save
    assert call_command(["verify", str(left)]) == 2
    proof = verify_checkpoint(left, mode="record")
    assert (proof.ok, proof.step, proof.checks, proof.manifest) == (False, 9, ("commit",), None)
    assert "unfinished save" in proof.problems[0].message


def test_a_save_that_was_made_again_is_not_lost(save, tmp_path):
    run = shutil.copytree(save("--size", "2048"), tmp_path / "run")
    shutil.copytree(run / "checkpoints" / "9", run / "checkpoints" / "9.orbax-checkpoint-tmp")
    assert [(proof.step, proof.ok) for proof in verify_checkpoints(run)] == [(0, True), (9, True)]


def test_runs_are_compared_at_the_last_common_step_and_a_lost_one_is_named(save, tmp_path, capsys):
    lost, whole = tmp_path / "lost", tmp_path / "whole"
    shutil.copytree(save("--size", "2048"), whole)
    shutil.copytree(whole, lost)
    (lost / "checkpoints" / "9").rename(lost / "checkpoints" / "9.orbax-checkpoint-tmp")
    assert call_command(["verify", str(lost), "--against", str(whole)]) == 1
    printed = capsys.readouterr().out
    assert "equal" in printed
    assert f"{lost} lacks step 9: its save was not finished" in printed
    shutil.rmtree(lost / "checkpoints" / "9.orbax-checkpoint-tmp")  # never begun
    assert call_command(["verify", str(whole), "--against", str(lost)]) == 1
    printed = capsys.readouterr().out
    assert f"{lost} lacks step 9: the other has it" in printed
    assert "✓ equal" not in printed
    steps = [str(run / "checkpoints" / "0") for run in (whole, lost)]
    assert call_command(["verify", steps[0], "--against", steps[1]]) == 0  # the named steps are asked about


def test_a_folder_of_unfinished_saves_only_is_reported(save, tmp_path):
    run = save("--die-at", "while-writing", "--size", "2048", returncode=-9)
    left = "9.orbax-checkpoint-tmp"
    shutil.copytree(run / "checkpoints" / left, tmp_path / "checkpoints" / left)
    with pytest.raises(CheckpointError, match=r"only unfinished saves \(9\.orbax-checkpoint-tmp\)"):
        tuple(verify_checkpoints(tmp_path))


def set_commit_time(step: Path, value: object) -> None:
    path = step / "_CHECKPOINT_METADATA"
    content = json.loads(path.read_text())
    content["commit_timestamp_nsecs"] = value
    path.write_text(json.dumps(content))


def test_a_step_with_its_name_but_no_commit_is_unfinished(step_folder):
    """The layout of a save on gs://, where the folder has its final name from the beginning."""
    (step_folder / "commit_success.txt").unlink()
    set_commit_time(step_folder, None)
    proof = verify_checkpoint(step_folder, mode="record")
    assert {p.check for p in proof.problems} == {"commit"}
    assert {p.path for p in proof.problems} == {"_CHECKPOINT_METADATA", "commit_success.txt"}
    assert proof.manifest is None


@pytest.mark.parametrize("value", ["soon", 1e40, 10**40, float("nan"), float("inf"), True, -1, [1]])
def test_an_invalid_commit_time_is_named(step_folder, value):
    set_commit_time(step_folder, value)
    proof = verify_checkpoint(step_folder, mode="record")
    assert [(p.check, p.path) for p in proof.problems] == [("commit", "_CHECKPOINT_METADATA")]
    assert "commit time" in proof.problems[0].message
    assert proof.manifest is None


def test_the_items_of_another_step_are_named(run_folder):
    steps = run_folder / "checkpoints"
    shutil.rmtree(steps / "9" / "items")
    shutil.copytree(steps / "0" / "items", steps / "9" / "items")
    (problem,) = verify_checkpoint(steps / "9").problems
    assert (problem.check, problem.path) == ("commit", "items/commit_success.txt")
    assert re.search(r"was written for \S+/0, not for \S+/9:", problem.message)


@pytest.mark.parametrize("marker", ["commit_success.txt", "items/commit_success.txt"])
def test_a_missing_marker_is_named(step_folder, marker):
    (step_folder / marker).unlink()
    proof = verify_checkpoint(step_folder)
    assert [(p.check, p.path) for p in proof.problems] == [("commit", marker)]


def test_a_local_checkpoint_of_an_older_orbax_has_no_markers(step_folder):
    for marker in step_folder.rglob("commit_success.txt"):
        marker.unlink()
    assert verify_checkpoint(step_folder).ok


def test_on_gs_every_marker_must_be_there():
    files = {"_CHECKPOINT_METADATA": 1, "items/_METADATA": 1}
    problems = check_commit(
        epath.Path("gs://bucket/run/9"), files, [Item("items/", True)], {"commit_timestamp_nsecs": 1}
    )
    assert [p.path for p in problems] == ["commit_success.txt", "items/commit_success.txt"]


def test_a_step_under_another_name_is_named(run_folder):
    checkpoints = run_folder / "checkpoints"
    shutil.rmtree(checkpoints / "9")
    (checkpoints / "0").rename(checkpoints / "9")
    (problem,) = verify_checkpoint(checkpoints / "9").problems
    assert (problem.check, problem.path) == ("commit", "commit_success.txt")
    assert "step 0" in problem.message


def test_a_checkpoint_may_be_moved_elsewhere(step_folder, tmp_path):
    for place in (tmp_path / "elsewhere" / "9", tmp_path / "best"):
        shutil.copytree(step_folder, place)
        assert verify_checkpoint(place, deep=True).ok


def test_an_item_that_was_not_committed_is_named(step_folder):
    (step_folder / "items").rename(step_folder / "items.orbax-checkpoint-tmp")
    problems = verify_checkpoint(step_folder).problems
    assert ("commit", "items.orbax-checkpoint-tmp") in [(p.check, p.path) for p in problems]
    assert ("metadata", "items/") in [(p.check, p.path) for p in problems]


def test_an_emptied_step_is_named(run_folder):
    step = run_folder / "checkpoints" / "9"
    shutil.rmtree(step)
    step.mkdir()
    first, second = verify_checkpoints(run_folder)
    assert first.ok
    assert (second.step, second.ok) == (9, False)
    assert "empty" in second.problems[0].message


def test_verifying_beside_a_run_that_saves_and_deletes(tmp_path):
    """Every step that is found while a trainer saves and removes checkpoints is whole, or was removed meanwhile."""
    checkpoints = tmp_path / "checkpoints"
    steps = [str(step) for step in range(12)]
    saver = subprocess.Popen(
        [
            sys.executable,
            str(SAVER),
            str(checkpoints),
            "--steps",
            *steps,
            "--keep",
            "3",
            "--size",
            "512",
            "--pause",
            "0.1",
            "--seen",
            str(tmp_path / "manifests"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    verified: set[int] = set()
    removed = 0
    try:
        while saver.poll() is None:
            try:
                found = find_steps(tmp_path) if checkpoints.exists() else []
            except CheckpointError:  # no step is committed yet
                found = []
            for step in found:
                try:
                    proof = verify_checkpoint(
                        step.path, manifest=tmp_path / "manifests" / f"{step.step}.json", mode="record"
                    )
                except CheckpointError:
                    assert not step.path.exists()
                    removed += 1
                    continue
                if proof.ok:
                    verified.add(step.step)
                else:
                    # Orbax removes a step file by file and its folder last: either state may be seen
                    messages = [problem.message for problem in proof.problems]
                    assert proof.retired or messages[0].startswith("the step's folder is empty"), messages
                    assert step.step < 9  # the last three are kept
                    removed += 1
            time.sleep(0.02)
    finally:
        saver.terminate()
        saver.wait(60)
    assert saver.returncode == 0
    assert len(verified) >= 6
    left = [proof for proof in verify_checkpoints(tmp_path, mode="check", deep=True) if Path(proof.path).exists()]
    assert [proof.step for proof in left] == [9, 10, 11]
    assert [proof.problems for proof in left if proof.step in verified] == [
        () for proof in left if proof.step in verified
    ]


def test_a_step_removed_meanwhile_is_not_damage(step_folder):
    """A checkpoint manager with max_to_keep deletes a checkpoint during its verification."""

    def remove(check: str, done: int, total: int) -> None:
        shutil.rmtree(step_folder, ignore_errors=True)

    proof = verify_checkpoint(step_folder, mode="record", on_progress=remove)
    assert (proof.ok, proof.manifest) == (False, None)
    assert [(p.check, p.path) for p in proof.problems] == [("commit", ".")]
    assert "was removed during the verification" in proof.problems[0].message


def test_a_file_that_vanishes_meanwhile_is_named(step_folder):
    def remove(check: str, done: int, total: int) -> None:
        (step_folder / "items" / "_sharding").unlink(missing_ok=True)

    proof = verify_checkpoint(step_folder, mode="record", on_progress=remove)
    assert [(p.check, p.path) for p in proof.problems] == [("manifest", "items/_sharding")]
    assert proof.manifest is None


def test_verifying_changes_nothing(step_folder):
    def state() -> list[tuple[str, int, int]]:
        paths = sorted([step_folder.parent, *step_folder.parent.rglob("*")])
        return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]

    before = state()
    verify_checkpoint(step_folder, mode="record", deep=True)
    assert state() == before
    assert os.listdir(step_folder.parent.parent / "manifests") == ["9.json"]
