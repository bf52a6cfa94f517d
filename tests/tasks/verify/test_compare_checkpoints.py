"""Comparison of two checkpoints: one state in every API's tree, hand-made differences, the arms of runs, bad input."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest

from flows.cli.app import call_command
from tasks.records.compared_checkpoints import ArrayDifference
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tasks.store.store import open_store
from tasks.verify.array_index import ArraySpec
from tasks.verify.array_pairs import meaning_of_array, pair_arrays
from tasks.verify.compare_checkpoints import compare_arms, compare_checkpoints, find_common
from tasks.verify.layout import CheckpointError
from tasks.verify.verification import verify_checkpoints
from tests.wording.sentences import Wording

# of saver_trees.py: 5 parameters (two kernels and a norm in the layers), as many mu and nu, 2 counts and the step
ARRAYS = 18
UNROLLED = ARRAYS + 3 * 3 * 2  # the three arrays of the layers are nine arrays, in parameters, mu and nu


def run(arm: str, folder: Path, **proof: object) -> RunRecord:
    proofs = tuple(found.replace(**proof) for found in verify_checkpoints(folder))
    reading = RunReading(name=arm, format="maxview")
    return RunRecord(plan=None, arm=arm, label=arm, commit=None, log="", reading=reading, proofs=proofs)


def alone(arrays: tuple[ArrayDifference, ...]) -> list[tuple[str, str]]:
    return [(array.role, name) for array in arrays if array.values is None for name in array.names + array.other_names]


@pytest.mark.parametrize("other", ["linen", "linen-unrolled", "nnx", "nnx-unrolled", "nnx-aux"])
def test_one_state_is_equal_in_every_tree_and_both_directions(trees, other):
    for one, two in (("linen", other), (other, "linen"), (other, "nnx-unrolled")):
        found = compare_checkpoints(trees / one, trees / two)
        compared = [array for array in found.arrays if array.values is not None]
        state = [array for array in compared if array.is_state]
        assert found.equal
        assert all(array.exact for array in compared)
        both_unrolled = one.endswith("unrolled") and two.endswith("unrolled")
        assert len(state) == (UNROLLED if both_unrolled else ARRAYS)
        assert all(role in ("random numbers", "quantisation") for role, _ in alone(found.arrays))


def test_arrays_of_one_implementation_only_are_explained_by_name(trees):
    found = compare_checkpoints(trees / "linen", trees / "nnx-aux")
    assert found.equal
    assert sorted(alone(found.arrays)) == [
        ("quantisation", "nnx_aux.decoder.layers.mlp.AqtEinsum_0.AqtDotGeneral_0.qrhs.frozen.scale"),
        ("random numbers", "nnx_aux.rngs.params.count"),
        ("random numbers", "nnx_aux.rngs.params.key"),
    ]


@pytest.mark.parametrize("base", ["linen", "linen-unrolled", "nnx"])
def test_differences_are_sorted_by_size_and_have_their_index(trees, base):
    """saver_trees.nudged: +3 and −4 in one kernel, a NaN in one moment, +0.5 in one norm."""
    found = compare_checkpoints(trees / "nudged", trees / base)
    assert not found.equal
    nan, kernel, norm = (array for array in found.arrays if array.values and array.values.differing)
    assert nan.names == ("opt_state.0.nu.params.token_embedder.embedding",)
    assert (nan.values.differing, nan.values.not_finite, nan.values.norm) == (1, 1, 0.0)
    assert kernel.names == ("params.params.decoder.layers.mlp.wi_0.kernel",)
    assert (kernel.values.differing, kernel.values.values) == (2, 8 * 3 * 6)
    assert kernel.values.norm == pytest.approx(math.hypot(3, 4), rel=1e-6)  # float32 rounds the sums
    assert (kernel.values.largest, kernel.values.where) == (pytest.approx(4, rel=1e-6), (0, 0, 0))
    assert norm.values.where == (7,)
    assert norm.values.norm == norm.values.largest == pytest.approx(0.5, rel=1e-6)
    if base == "linen-unrolled":
        assert (kernel.layer_axis, len(kernel.other_names)) == (1, 3)


def test_another_dtype_is_a_difference(trees):
    found = compare_checkpoints(trees / "linen", trees / "bfloat16")
    (array,) = [array for array in found.arrays if not array.exact]
    assert (array.dtype, array.other_dtype) == ("float32", "bfloat16")
    assert 0 < array.values.largest < 2**-6  # 8 bits of a number below 4


def test_another_sharding_is_shown_and_is_not_a_difference(save, run_folder):
    """The kernels of saver.py are on two devices along their first dimension; the copy's metadata says unsharded."""
    path = run_folder / "checkpoints" / "9" / "items" / "_sharding"
    layouts = {key: json.loads(text) for key, text in json.loads(path.read_text()).items()}
    for layout in layouts.values():
        layout.update({"partition_spec": []} if layout["sharding_type"] == "NamedSharding" else {})
    path.write_text(json.dumps({key: json.dumps(layout) for key, layout in layouts.items()}))
    found = compare_checkpoints(save(), run_folder)
    assert found.equal
    moved = [array for array in found.arrays if array.sharding != array.other_sharding]
    assert {(array.sharding, array.other_sharding) for array in moved} == {("(fsdp) over fsdp=2", "() over fsdp=2")}
    assert [array.names[0].rpartition(".")[0][-7:] for array in moved] == ["layer_0", "layer_1", "layer_2"]


def test_the_last_common_step_or_the_requested_ones(trees):
    assert compare_checkpoints(trees / "linen", trees / "linen").step == 4
    assert compare_checkpoints(trees / "linen" / "checkpoints" / "2", trees / "linen").step == 2
    two, four = trees / "linen" / "checkpoints" / "2", trees / "nnx" / "checkpoints" / "4"
    assert compare_checkpoints(two, four).other_path == str(four)
    with pytest.raises(CheckpointError, match=r"it has 4, not 2; name a step of each"):
        compare_checkpoints(two, trees / "nnx")


def test_another_model_and_an_incomplete_save_are_one_message(trees, tmp_path, capsys):
    with pytest.raises(CheckpointError, match=r"another model .*: decoder\.decoder_norm\.scale .*\(8,\) .*\(16,\)"):
        compare_checkpoints(trees / "linen", trees / "wider")
    half = Path(shutil.copytree(trees / "nnx", tmp_path / "half"))
    shutil.rmtree(half / "checkpoints" / "4" / "items" / "ocdbt.process_0")
    (half / "checkpoints" / "4" / "items" / "d").rename(half / "gone")
    for other in (half, tmp_path / "nowhere", trees / "wider"):
        assert call_command(["verify", str(trees / "linen"), "--against", str(other)]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.count("maxview: ") == 1
    assert call_command(["verify", str(trees), "--against", str(half), "--deep"]) == 2


def test_the_command_reports_differences_and_exits_with_their_status(trees, capsys):
    assert call_command(["verify", str(trees / "linen"), "--against", str(trees / "nnx-aux")]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"18 .*, 21 .*: 18 equal", shown)
    assert "only there: 2 random numbers" in shown
    assert call_command(["verify", str(trees / "nudged"), "--against", str(trees / "linen")]) == 1
    assert "3 of 18 differ" in capsys.readouterr().out
    assert call_command(["verify", str(trees / "nudged"), "--against", str(trees / "linen"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert len(document["arrays"]) == ARRAYS
    assert document["arrays"][1]["values"]["where"] == [0, 0, 0]


def test_several_checkpoints_are_all_verified_whatever_one_is(trees, capsys):
    names = [str(trees / "linen"), str(trees / "nowhere"), str(trees / "nnx")]
    assert call_command(["verify", *names, "--json"]) == 2
    shown = capsys.readouterr()
    assert [proof["ok"] for proof in json.loads(shown.out)] == [True, True, True]
    assert "nowhere: does not exist" in shown.err
    assert call_command(["verify", str(trees / "linen"), "--check"]) == 2
    assert capsys.readouterr().out.count("was never recorded") == 2


def test_the_last_common_step_of_two_arms_is_compared(trees, tmp_path):
    linen, nnx = run("linen", trees / "linen"), run("nnx", trees / "nnx-aux")  # steps 2 and 4, and step 4
    found = compare_arms([linen, nnx, linen], open_store(tmp_path))
    assert (found.step, found.equal, found.problem) == (4, True, "")
    assert (found.path, found.other_path) == tuple(f"{trees}/{name}/checkpoints/4" for name in ("linen", "nnx-aux"))
    assert found.committed == tuple(side.proofs[-1].committed_at for side in (linen, nnx))
    assert len(found.compared) == ARRAYS


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


def test_another_model_is_reported_and_is_not_an_error(trees, tmp_path, wording: Wording):
    found = compare_arms([run("a", trees / "linen"), run("b", trees / "wider")], open_store(tmp_path))
    assert "of another model" in found.problem
    assert re.search(r"decoder\.decoder_norm\.scale .*\(8,\) .*\(16,\)", found.problem)
    wording("findings", found.problem, A=trees / "linen", B=trees / "wider")
    assert (found.equal, found.arrays) == (False, ())


@pytest.mark.parametrize("change", [{"ok": False}, {"step": 77}, {"step": None}])
def test_without_a_sound_common_step_nothing_is_compared(trees, change):
    runs = [run("a", trees / "linen"), run("b", trees / "nnx", **change)]
    assert find_common(runs) is None
    assert find_common(runs[:1]) is None


def spec(name: str, *shape: int) -> ArraySpec:
    return ArraySpec(name, shape, "float32", 3, shape, shape, "/")


def test_paths_of_checkpoints():
    names = {
        "params.params.decoder.layers.mlp.wi_0.kernel": ("parameter", "decoder.layers.mlp.wi_0.kernel"),
        "params.decoder.decoder_norm.scale": ("parameter", "decoder.decoder_norm.scale"),
        "model.decoder.decoder_norm.scale.value": ("parameter", "decoder.decoder_norm.scale"),
        "opt_state.0.mu.params.a.b": ("optimizer", "mu.a.b"),
        "optimizer.opt_state.1.0.nu.a.b": ("optimizer", "nu.a.b"),
        "opt_state.1.0.count": ("counter", "count"),
        "optimizer.step.value": ("counter", "step"),
        "model.decoder.layers.self_attention.key.kernel": ("parameter", "decoder.layers.self_attention.key.kernel"),
        "model.dropout.rngs.key": ("random numbers", "model.dropout.rngs.key"),
        "nnx_aux.decoder.layers.x": ("other state", "nnx_aux.decoder.layers.x"),
    }
    assert {name: meaning_of_array(name) for name in names} == names


def test_more_than_nine_layers_are_paired_by_number():
    scanned = [spec("params.decoder.layers.w", 4, 12, 5)]
    unrolled = [spec(f"params.decoder.layers_{n}.w", 4, 5) for n in range(12)]
    (pair,) = pair_arrays(scanned, unrolled)
    assert [one.name for one in pair.theirs] == [one.name for one in unrolled]
    assert pair.layer_axis == 1
    assert len(pair_arrays(scanned, unrolled[:-1])) == 12  # a layer is missing, so the other layers are no stack
