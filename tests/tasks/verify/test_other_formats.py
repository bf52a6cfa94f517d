"""Checkpoints of other formats: safetensors is proved, of the others the arrays are counted."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
from safetensors.numpy import save_file

from flows.cli.app import call_command
from tasks.records.checkpoint_proof import highest
from tasks.verify.layout import CheckpointError
from tasks.verify.verification import verify_checkpoint, verify_checkpoints

SAMPLES = Path("tests/samples/checkpoints")
ARRAYS = {"w": np.ones((4, 3), np.float32), "b": np.arange(3.0)}


def save_levanter(folder: Path) -> None:
    """As Levanter saves through JAX: a Zarr folder per array, then its metadata."""
    for name in ("model/transformer/w", "model/embed", "optimizer_state/mu"):
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(folder / name)}}
        store = ts.open(spec, create=True, dtype=ts.float32, shape=[4, 4]).result()
        store.write(np.ones((4, 4), np.float32)).result()
    (folder / "metadata.json").write_text('{"step": 10, "timestamp": "2026-01-01T00:00:00", "is_temporary": false}')


def test_safetensors_are_proved(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file(ARRAYS, path)
    (proof,) = verify_checkpoints(path)
    assert (proof.is_sound, proof.arrays, proof.format) == (True, 2, "safetensors")
    assert highest(proof.levels) == "referentially whole"
    (proof,) = verify_checkpoints(path, deep=True)
    assert highest(proof.levels) == "decoded and finite"
    path.write_bytes(path.read_bytes()[:-1])
    (proof,) = verify_checkpoints(path)
    assert not proof.is_sound
    assert "is damaged" in proof.problems[0].message


def test_a_nan_is_found(tmp_path: Path) -> None:
    save_file(ARRAYS | {"n": np.array([1.0, np.nan], np.float16)}, tmp_path / "model.safetensors")
    (proof,) = verify_checkpoints(tmp_path, deep=True)
    assert [problem.message for problem in proof.problems] == ["n: 1 of 2 not finite"]


def test_an_index_needs_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-500"
    folder.mkdir()
    for number, name in enumerate(ARRAYS):
        save_file({name: ARRAYS[name]}, folder / f"model-{number}.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "model-0.safetensors", "b": "model-1.safetensors"}}))
    (proof,) = verify_checkpoints(tmp_path)
    assert (proof.is_sound, proof.step, proof.arrays, proof.files) == (True, 500, 2, 3)
    index.write_text(json.dumps({"weight_map": {"w": "model-0.safetensors", "c": "model-1.safetensors"}}))
    (proof,) = verify_checkpoints(tmp_path)
    assert [(one.path, one.message) for one in proof.problems] == [("model-1.safetensors", "lacks c")]
    (folder / "model-1.safetensors").unlink()
    (proof,) = verify_checkpoints(tmp_path)
    assert [one.message for one in proof.problems] == ["is missing, though model.safetensors.index.json names it"]


def test_other_formats_are_counted_and_never_unsound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_levanter(tmp_path / "step-10")
    np.savez(tmp_path / "w.npz", **ARRAYS)
    (tmp_path / "s.msgpack").write_bytes(b"\x81")
    found = {Path(proof.path).name: proof for proof in verify_checkpoints(tmp_path)}
    assert {name: (proof.format, proof.arrays) for name, proof in found.items()} == {
        "step-10": ("Levanter", 3), "w.npz": ("NumPy", 2), "s.msgpack": ("Flax msgpack", 0),
    }  # fmt: skip
    assert found["step-10"].step == 10
    assert all(proof.is_only_counted and not proof.is_sound for proof in found.values())
    assert call_command(["verify", str(tmp_path)]) == 3
    shown = capsys.readouterr().out
    assert "another format (Levanter): 3 arrays counted, not proved" in shown
    assert "not sound" not in shown


@pytest.mark.parametrize("name", ["mlp.eqx", "hyper.eqx"])
def test_equinox_counts_its_arrays(name: str, tmp_path: Path) -> None:
    (proof,) = verify_checkpoints(SAMPLES / name)
    assert (proof.format, proof.arrays, proof.is_only_counted) == ("Equinox", 6, True)
    cut = tmp_path / name
    cut.write_bytes((SAMPLES / name).read_bytes()[:-2])
    (proof,) = verify_checkpoints(cut)
    assert (proof.arrays, proof.is_only_counted) == (0, True)


def test_a_manifest_is_of_orbax(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **ARRAYS)
    with pytest.raises(CheckpointError, match="--record and --check are for these"):
        list(verify_checkpoints(tmp_path, mode="record"))


def test_a_folder_without_a_checkpoint_stays_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(CheckpointError, match="holds no Orbax checkpoint"):
        list(verify_checkpoints(tmp_path))


def test_the_part_of_one_host_is_not_unsound(tmp_path: Path) -> None:
    """Orbax's emergency manager keeps on each host the index of all arrays, and only this host's chunks."""
    with tarfile.open(SAMPLES / "emergency-host.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (proof,) = verify_checkpoints(tmp_path)
    assert (proof.step, proof.arrays, proof.is_only_counted) == (3, 2, True)
    assert not verify_checkpoint(tmp_path).ok  # as a whole checkpoint it lacks the other hosts' chunks
