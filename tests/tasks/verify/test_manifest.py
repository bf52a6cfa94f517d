"""The manifest is recorded once, outside the checkpoint, and only for a whole one."""

import json
import shutil
from pathlib import Path

import google_crc32c
import pytest
from etils import epath

from tasks.store.atomic import StoreError
from tasks.verify.manifest import check_manifest, checksum_files, manifest_path
from tasks.verify.verification import verify_checkpoint, verify_checkpoints


def test_the_checksums_are_crc32c(tmp_path):
    # the check value of CRC-32C in RFC 3720, appendix B.4: 32 bytes of zeros
    (tmp_path / "zeros").write_bytes(bytes(32))
    assert checksum_files(epath.Path(tmp_path), {"zeros": 32}) == ({"zeros": (32, "8a9136aa")}, [])


def test_a_file_larger_than_a_block_has_the_checksum_of_the_whole(tmp_path):
    data = bytes(range(256)) * (9 << 12)
    (tmp_path / "large").write_bytes(data)
    sums, problems = checksum_files(epath.Path(tmp_path), {"large": len(data)})
    assert sums == {"large": (len(data), f"{google_crc32c.value(data):08x}")}
    assert problems == []


def test_an_unreadable_file_is_named_and_a_vanished_one_is_left_out(tmp_path):
    (tmp_path / "folder").mkdir()  # opening it fails with an OSError, as on a bad disk
    sums, problems = checksum_files(epath.Path(tmp_path), {"folder": 1, "gone": 1})
    assert sums == {}
    assert [(p.check, p.path) for p in problems] == [("manifest", "folder")]
    recorded = {"files": {"folder": {"bytes": 1, "crc32c": "0"}, "gone": {"bytes": 1, "crc32c": "0"}}}
    assert [(p.path, p.message.split(":")[0]) for p in check_manifest(recorded, sums, problems)] == [
        ("folder", "cannot be read"),
        ("gone", "is missing"),
    ]


def test_record_then_check(run_folder):
    proofs = tuple(verify_checkpoints(run_folder, mode="record"))
    assert [proof.manifest for proof in proofs] == [str(run_folder / "manifests" / f"{step}.json") for step in (0, 9)]
    for proof in proofs:
        assert proof.checks == ("commit", "metadata", "ranges", "manifest")
        content = json.loads(Path(proof.manifest).read_text())
        assert len(content["files"]) == proof.files
        assert sum(entry["bytes"] for entry in content["files"].values()) == proof.bytes
    assert all(proof.ok and "manifest" in proof.checks for proof in verify_checkpoints(run_folder, mode="check"))


def test_a_link_to_another_runs_manifests_is_not_followed(run_folder, tmp_path):
    """A trainer can replace its own folder of manifests by a link; the flow that writes there is not confined."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "9.json").write_text("honest")
    (run_folder / "manifests").symlink_to(other)
    with pytest.raises(StoreError, match="manifests: is a link to another place"):
        tuple(verify_checkpoints(run_folder, mode="record"))
    assert [path.read_text() for path in other.iterdir()] == ["honest"]


def test_a_check_without_a_manifest_says_how_to_record_one_and_checks_the_others(run_folder):
    tuple(verify_checkpoints(run_folder, mode="record"))
    manifest = run_folder / "manifests" / "0.json"
    manifest.unlink()
    first, second = verify_checkpoints(run_folder, mode="check")
    assert [(p.check, p.path) for p in first.problems] == [("manifest", str(manifest))]
    assert "--record" in first.problems[0].message
    assert (second.step, second.ok, "manifest" in second.checks) == (9, True, True)


@pytest.mark.parametrize("mode", ["none", "check", "record"])
@pytest.mark.parametrize("place", ["", "checkpoints"])
def test_a_missing_step_with_a_manifest_is_reported(run_folder, mode, place):
    tuple(verify_checkpoints(run_folder, mode="record"))
    shutil.rmtree(run_folder / "checkpoints" / "9")
    whole, gone = verify_checkpoints(run_folder / place, mode=mode)
    assert (whole.step, whole.ok) == (0, True)
    assert (gone.step, gone.ok, [(p.check, p.path) for p in gone.problems]) == (9, False, [("commit", ".")])
    assert "9.json exists" in gone.problems[0].message
    (named,) = verify_checkpoints(run_folder / "checkpoints" / "9", mode=mode)
    assert named.problems == gone.problems


def test_a_run_with_all_steps_missing(run_folder):
    tuple(verify_checkpoints(run_folder, mode="record"))
    shutil.rmtree(run_folder / "checkpoints")
    assert [(proof.step, proof.ok) for proof in verify_checkpoints(run_folder)] == [(0, False), (9, False)]
    (run_folder / "manifests" / "0.json").write_text("{}")  # other files
    assert [proof.step for proof in verify_checkpoints(run_folder)] == [9]


def test_recording_again_checks_and_never_replaces(step_folder):
    manifest = manifest_path(step_folder)
    verify_checkpoint(step_folder, mode="record")
    before = manifest.read_bytes()
    name = next(
        path for path in (step_folder / "items" / "ocdbt.process_0" / "d").iterdir() if path.stat().st_size > 9000
    )
    data = bytearray(name.read_bytes())
    data[5000] ^= 1
    name.write_bytes(data)
    proof = verify_checkpoint(step_folder, mode="record")
    assert [p.path for p in proof.problems] == [str(name.relative_to(step_folder))]
    assert manifest.read_bytes() == before


def test_another_save_of_the_step_is_recorded_anew(save, run_folder, step_folder):
    verify_checkpoint(step_folder, mode="record")
    shutil.rmtree(step_folder)
    shutil.copytree(save("--chunk-bytes", "4096") / "checkpoints" / "9", step_folder)
    stale = verify_checkpoint(step_folder, mode="check")
    assert not stale.ok
    assert verify_checkpoint(step_folder, mode="record").ok
    assert verify_checkpoint(step_folder, mode="check").ok


def test_a_damaged_checkpoint_is_not_recorded(step_folder):
    (step_folder / "items" / "_sharding").unlink()
    proof = verify_checkpoint(step_folder, mode="record")
    assert (proof.ok, proof.manifest, "manifest" in proof.checks) == (False, None, False)
    assert not manifest_path(step_folder).exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"document": "maxview checkpoint manifest", "version": 1, "files": 3}']
)
def test_a_damaged_manifest_is_a_problem_that_names_it(step_folder, text):
    manifest = manifest_path(step_folder)
    manifest.parent.mkdir()
    manifest.write_text(text)
    for mode in ("check", "record"):
        proof = verify_checkpoint(step_folder, mode=mode)
        assert [(p.check, p.path) for p in proof.problems] == [("manifest", str(manifest))]
    assert manifest.read_text() == text


def test_an_unwritable_manifest_is_reported(step_folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="a file stands where a folder is needed"):
        verify_checkpoint(step_folder, manifest=tmp_path / "file" / "9.json", mode="record")


def test_manifests_are_outside_the_checkpoint(tmp_path):
    assert manifest_path(epath.Path("/r/checkpoints/9")) == Path("/r/manifests/9.json")
    assert manifest_path(epath.Path("/data/best")) == Path("/data/best.manifest.json")
