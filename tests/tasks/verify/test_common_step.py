"""The checkpoints of two arms side by side: the last common step, read once for the same two saves."""

import shutil
from pathlib import Path

import pytest

from tasks.records import LEVELS, CheckpointProof, RunReading, RunRecord
from tasks.store import open_store
from tasks.verify.common_step import compare_arms, find_common
from tasks.verify.verification import verify_checkpoints


def run(arm: str, folder: Path, **proof: object) -> RunRecord:
    proofs = tuple(found.model_copy(update=proof) for found in verify_checkpoints(folder))
    reading = RunReading(name=arm, format="maxview")
    return RunRecord(plan=None, arm=arm, label=arm, commit=None, log="", reading=reading, proofs=proofs)


def test_the_last_common_step_is_compared(trees, tmp_path):
    linen, nnx = run("linen", trees / "linen"), run("nnx", trees / "nnx-aux")  # steps 2 and 4, and step 4
    found = compare_arms([linen, nnx, linen], open_store(tmp_path))
    assert (found.step, found.equal, found.problem) == (4, True, "")
    assert (found.path, found.other_path) == tuple(f"{trees}/{name}/checkpoints/4" for name in ("linen", "nnx-aux"))
    assert found.committed == tuple(side.proofs[-1].committed_at for side in (linen, nnx))
    assert len(found.compared) == 18  # the arrays of saver_trees.py


def test_the_same_two_saves_are_not_read_again(trees, tmp_path):
    folders = [Path(shutil.copytree(trees / name, tmp_path / name)) for name in ("linen", "nnx")]
    runs = [run(name, folder) for name, folder in zip("ab", folders, strict=True)]
    reported = []
    found = compare_arms(runs, open_store(tmp_path), on_progress=lambda _, done, total: reported.append((done, total)))
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert reported[-1][0] == reported[-1][1] > 0  # every byte of both sides was counted
    for path in folders[1].rglob("d/*"):
        path.unlink()  # a second read would find them incomplete
    assert compare_arms(runs, open_store(tmp_path), known=found) is found
    newer = [runs[0], run("b", folders[0], committed_at="2026-11-18T10:00:00+00:00", path=found.other_path)]
    assert "is not complete" in compare_arms(newer, open_store(tmp_path), known=found).problem


def test_another_model_is_reported_and_is_not_an_error(trees, tmp_path):
    found = compare_arms([run("a", trees / "linen"), run("b", trees / "wider")], open_store(tmp_path))
    assert "of another model" in found.problem
    assert "decoder.decoder_norm.scale is (8,) here and (16,) there" in found.problem
    assert (found.equal, found.arrays) == (False, ())


@pytest.mark.parametrize("change", [{"ok": False}, {"step": 77}, {"step": None}])
def test_without_a_sound_common_step_nothing_is_compared(trees, change):
    runs = [run("a", trees / "linen"), run("b", trees / "nnx", **change)]
    assert find_common(runs) is None
    assert find_common(runs[:1]) is None


def test_a_proof_has_its_levels_and_the_duration_of_each_check(run_folder):
    levels = ("committed", "structurally whole", "referentially whole")
    for mode, more in (("none", ()), ("record", ("content recorded",))):
        proof = tuple(verify_checkpoints(run_folder, mode=mode))[-1]
        assert proof.levels == levels + more
        assert set(proof.timings) == set(proof.checks)
        assert 0 < sum(proof.timings.values()) <= proof.seconds
    proof = tuple(verify_checkpoints(run_folder, mode="check", deep=True))[-1]
    assert proof.levels == (*levels, "content recorded", "content unchanged", "decoded and finite")
    assert proof.begun_at <= proof.committed_at <= proof.verified_at
    (run_folder / "checkpoints" / "9" / "items" / "_sharding").unlink()
    damaged = tuple(verify_checkpoints(run_folder, mode="check", deep=True))[-1]
    assert damaged.levels == ("committed",)  # levels above the first damage do not count


def test_an_older_record_has_the_levels_of_its_checks():
    fields = {"step": 0, "path": "/c/0", "ok": False, "checks": ("commit", "metadata", "ranges", "manifest")}
    problem = {"check": "ranges", "path": "d/0", "message": "is missing"}
    proof = CheckpointProof.model_validate({**fields, "problems": (problem,)})
    assert proof.levels == ("committed", "structurally whole")


def test_the_levels_in_the_docs_equal_the_code():
    text = (Path(__file__).parents[3] / "docs" / "checkpoints.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == [f"| {level} | {meaning.proves} | {meaning.costs} |" for level, meaning in LEVELS.items()]
