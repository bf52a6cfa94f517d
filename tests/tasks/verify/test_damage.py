"""Any damage to a file of a checkpoint is reported with that file."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorstore as ts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.verify.verification import verify_checkpoint, verify_checkpoints

pytestmark = pytest.mark.flows

UNHURRIED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)


def delete(path: Path) -> None:
    path.unlink()


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def payload_file(folder: Path) -> str:
    return max(files_of(folder), key=lambda name: (folder / name).stat().st_size)


@pytest.mark.parametrize("damage", [delete, halve, empty, flip, append], ids=lambda damage: damage.__name__)
def test_the_manifest_finds_damage_to_every_single_file(step_folder, damage):
    assert verify_checkpoint(step_folder, mode="record").ok
    names = files_of(step_folder)
    assert len(names) > 10
    for name in names:
        whole = (step_folder / name).read_bytes()
        damage(step_folder / name)
        proof = verify_checkpoint(step_folder, mode="check")
        assert not proof.ok
        assert [p.path for p in proof.problems if p.check == "manifest"] == [name]
        (step_folder / name).write_bytes(whole)
    assert verify_checkpoint(step_folder, mode="check").ok


@pytest.mark.parametrize(
    ("damage", "word"),
    [(delete, "is missing"), (halve, "is cut off"), (empty, "is empty")],
    ids=["delete", "halve", "empty"],
)
def test_a_missing_payload_file_is_found_without_a_manifest(step_folder, damage, word):
    name = payload_file(step_folder)
    damage(step_folder / name)
    proof = verify_checkpoint(step_folder)
    assert [(p.check, p.path) for p in proof.problems] == [("ranges", name)]
    assert word in proof.problems[0].message
    # the lost array by its name in the tree; the file holds the chunks of the kernels and of mu
    assert re.search(
        r"lost.*: (opt_state\.0\.mu|params\.params\.decoder\.layer_\d\.kernel)\b", proof.problems[0].message
    )


@pytest.mark.parametrize("damage", [delete, halve, empty, flip], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", ["manifest", "tree"])
def test_a_missing_index_is_found_without_a_manifest(step_folder, damage, kind):
    if kind == "manifest":
        name = "items/manifest.ocdbt"
    else:
        (name,) = (name for name in files_of(step_folder) if name.startswith("items/d/"))
    damage(step_folder / name)
    proof = verify_checkpoint(step_folder, deep=True)
    assert [(p.check, p.path) for p in proof.problems] == [("ranges", name)]
    assert proof.tree_digest is None


def test_only_the_manifest_detects_a_flipped_payload_byte(step_folder):
    verify_checkpoint(step_folder, mode="record")
    name = payload_file(step_folder)
    flip(step_folder / name)
    assert verify_checkpoint(step_folder).ok
    proof = verify_checkpoint(step_folder, mode="check")
    assert [(p.check, p.path) for p in proof.problems] == [("manifest", name)]
    assert "crc32c" in proof.problems[0].message


@pytest.mark.parametrize(
    "name",
    [
        "items/_METADATA",
        "items/_sharding",
        "items/array_metadatas/process_0",
        "items/manifest.ocdbt",
        "_CHECKPOINT_METADATA",
    ],
)
@pytest.mark.parametrize("damage", [delete, halve, empty], ids=lambda damage: damage.__name__)
def test_an_incomplete_description_is_named(step_folder, name, damage):
    damage(step_folder / name)
    assert {p.path for p in verify_checkpoint(step_folder).problems} == {name}


def edit(path: Path, change: Callable[[dict], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_leaf_removed_from_the_tree_is_named(step_folder):
    path = step_folder / "items" / "_METADATA"
    key = "('params', 'params', 'decoder', 'layer_1', 'kernel')"
    edit(path, lambda content: content["tree_metadata"].pop(key))
    problems = verify_checkpoint(step_folder).problems
    assert {(p.check, p.path) for p in problems} == {("metadata", "items/_METADATA")}
    assert all("params.params.decoder.layer_1.kernel" in p.message for p in problems)
    assert any("a restore silently omits that" in p.message for p in problems)


def test_a_leaf_without_data_is_named(step_folder):
    def add(content):
        entry = json.loads(json.dumps(content["tree_metadata"]["('zeros',)"]))
        entry["key_metadata"][0]["key"] = "ghost"
        content["tree_metadata"]["('ghost',)"] = entry

    edit(step_folder / "items" / "_METADATA", add)
    problems = verify_checkpoint(step_folder).problems
    assert "names ghost, which the data does not hold" in [p.message for p in problems if p.path == "items/_METADATA"]


def test_an_array_without_a_description_or_a_layout_is_named(step_folder):
    edit(step_folder / "items" / "array_metadatas" / "process_0", lambda content: content["array_metadatas"].pop(0))
    edit(step_folder / "items" / "_sharding", lambda content: content.popitem())
    problems = verify_checkpoint(step_folder).problems
    assert {p.path for p in problems} == {"items/array_metadatas/process_0", "items/_sharding"}


def test_a_description_of_other_chunks_is_named(step_folder):
    def halve_chunks(content):
        for entry in content["array_metadatas"]:
            if entry["array_metadata"]["param_name"] == "zeros":
                entry["array_metadata"]["chunk_shape"][0] //= 2

    edit(step_folder / "items" / "array_metadatas" / "process_0", halve_chunks)
    (problem,) = verify_checkpoint(step_folder).problems
    assert (problem.path, problem.check) == ("items/array_metadatas/process_0", "metadata")
    assert "zeros" in problem.message


def test_a_chunk_missing_in_the_index_is_named(step_folder):
    base = {"driver": "file", "path": f"{step_folder}/items/"}
    store = ts.KvStore.open({"driver": "ocdbt", "base": base}).result()
    key = b"params.params.decoder.layer_0.kernel/c/1/0"
    assert key in store.list().result()
    del store[key]
    proof = verify_checkpoint(step_folder, deep=True)
    by_check = {p.check: p for p in proof.problems}
    assert set(by_check) == {"metadata", "values"}
    assert key.decode() in by_check["metadata"].message
    assert "layer_0.kernel cannot be decoded" in by_check["values"].message


def test_a_missing_item_is_named(step_folder):
    shutil.rmtree(step_folder / "items")
    problems = verify_checkpoint(step_folder).problems
    assert ("metadata", "items/") in [(p.check, p.path) for p in problems]


@pytest.mark.parametrize("layout", ["plain-zarr3", "plain-zarr2"])
def test_missing_chunk_files_of_the_plain_layout_are_named(save, tmp_path, layout):
    step = Path(shutil.copytree(save("--layout", layout) / "checkpoints" / "9", tmp_path / "9"))
    first, second = sorted(name for name in files_of(step) if "layer_2.kernel" in name and "zarr" not in name)
    delete(step / first)
    empty(step / second)
    assert {(p.check, p.path) for p in verify_checkpoint(step).problems} == {("ranges", first), ("ranges", second)}
    deep = verify_checkpoint(step, deep=True)
    assert [p.path for p in deep.problems if p.check == "values"] == [first]


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--chunk-bytes", "4096"), marks=pytest.mark.long)], ids=["whole", "cut"]
)
@pytest.mark.parametrize("layout", ["plain-zarr3", "plain-zarr2"])
def test_a_truncated_chunk_file_is_found_without_reading_it(save, tmp_path, layout, options):
    """At any place: zstd's frame, or the index at the end of a shard, shows the missing rest."""
    step = Path(shutil.copytree(save("--layout", layout, *options) / "checkpoints" / "9", tmp_path / "9"))
    chunks = [name for name in files_of(step) if ".kernel/" in name and "zarr" not in name]
    for name in chunks[::3]:
        whole = (step / name).read_bytes()
        for length in (1, 5, len(whole) // 2, len(whole) - 1):
            (step / name).write_bytes(whole[:length])
            (problem,) = verify_checkpoint(step).problems
            assert (problem.check, problem.path) == ("ranges", name)
            assert re.search(r"cut off|is damaged", problem.message)
        (step / name).write_bytes(whole + b"x")
        assert [p.path for p in verify_checkpoint(step).problems] == [name]
        (step / name).write_bytes(whole)
    assert verify_checkpoint(step).ok


def test_a_missing_metadata_file_of_the_plain_layout_is_named(save, tmp_path):
    step = Path(shutil.copytree(save("--layout", "plain-zarr3") / "checkpoints" / "9", tmp_path / "9"))
    delete(step / "items" / "zeros" / "zarr.json")
    problems = verify_checkpoint(step).problems
    assert any(p.path == "items/_METADATA" and "zeros" in p.message for p in problems)


@pytest.mark.parametrize(
    "options",
    [
        ("--nan",),
        pytest.param(("--nan", "--layout", "plain-zarr2"), marks=pytest.mark.long),
        pytest.param(("--nan", "--chunk-bytes", "4096"), marks=pytest.mark.long),
    ],
)
def test_deep_finds_nan_and_infinities_with_their_index(save, options):
    proofs = tuple(verify_checkpoints(save(*options)))
    assert all(proof.ok for proof in proofs)  # no payload is read without deep
    for proof in verify_checkpoints(save(*options), deep=True):
        (problem,) = proof.problems
        assert problem.check == "values"
        # saver.make_tree puts NaN at [3, 5] and −inf at [4, 0] of a 64 × 64 array
        assert "opt_state.0.mu holds 2 of 4,096 values" in problem.message
        assert problem.message.endswith("first at (3, 5)")
        assert (Path(proof.path) / problem.path).is_file()


@pytest.mark.parametrize(
    "name", ["items/_METADATA", "commit_success.txt", "items/manifest.ocdbt", "items/ocdbt.process_0/d/x"]
)
def test_a_pipe_in_a_checkpoint_is_named_and_not_opened(step_folder, name):
    (step_folder / name).unlink(missing_ok=True)
    os.mkfifo(step_folder / name)
    for deep in (False, True):
        proof = verify_checkpoint(step_folder, mode="record", deep=deep)
        assert [(p.check, p.path) for p in proof.problems] == [("commit", name)]
        assert "is a pipe or a device" in proof.problems[0].message


@pytest.mark.parametrize("name", ["items/_METADATA", "items/manifest.ocdbt"])
def test_a_description_of_gigabytes_is_not_read(step_folder, name):
    os.truncate(step_folder / name, 8 << 30)  # a hole: more than memory holds
    problems = verify_checkpoint(step_folder).problems
    assert {p.path for p in problems} == {name}
    assert "8,589,934,592 bytes" in problems[0].message


@settings(max_examples=60, deadline=None, suppress_health_check=UNHURRIED)
@given(data=st.data())
def test_damage_to_the_small_files_never_crashes_the_verifier(step_folder, data):
    small = [n for n in files_of(step_folder) if (step_folder / n).stat().st_size < 8000 and "process_0/d/" not in n]
    path = step_folder / data.draw(st.sampled_from(small))
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    new = data.draw(st.binary(max_size=12))
    try:
        path.write_bytes(whole[:place] + new + whole[place + len(new) :])
        proof = verify_checkpoint(step_folder, deep=True)
        assert proof.ok == (not proof.problems)
    finally:
        path.write_bytes(whole)
